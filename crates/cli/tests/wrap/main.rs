//! `lighthaul wrap` as users run it: real programs, the real library, and a small SOCKS5 gateway.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod capture;
mod children;
mod command;
mod fast_open;
mod gateway;
mod library;
mod refusals;
