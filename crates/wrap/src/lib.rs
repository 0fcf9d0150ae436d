//! Aside: a library that the dynamic linker puts before libc (`LD_PRELOAD`), so that a program's TCP connections go
//! through a gateway, though it knows of none. `lighthaul wrap` starts programs so.
//!
//! It stands in for `connect` alone: what flows then is the program's and libc's own business. It uses nothing of ours,
//! allocates nothing and takes no lock once it has looked for its gateway, since it runs in programs that it knows nothing of.
//!
//! - [`connect`]: what programs call
//! - `gateway`: where the gateway is; `address`: socket addresses as C has them
//! - `handshake`: what is said to the gateway (SOCKS5); `socket`: system calls behind safe functions
#![expect(
    unsafe_code,
    reason = "it is a function of C, in the place of one that takes pointers"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the environment is all that tells it where the gateway is"
)]

pub mod connect;

mod address;
mod gateway;
mod handshake;
mod socket;
