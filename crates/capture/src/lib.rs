//! Floor 3: connections of programs that are not aware of gateways, and proxy protocols.
//!
//! - [`socks`]: SOCKS5; [`connect`]: HTTP CONNECT; both are a [`handshake`]
//! - [`handshake_slots`]: limits on TLS handshakes of neighbors and strangers
//! - [`refusal`]: reasons of a refused session; [`credentials`]: name and password
//! - [`transparent`]: redirected connections; [`rules`]: rules of the kernel that redirect them;
//!   [`settings`]: selection of connections; `script`: rules in the language of nftables
//! - [`target`]: host and port that a program asks for; [`ports`]: sets of ports
//! - [`kernel`]: configuration of the kernel's packet filter and routes

pub mod connect;
pub mod credentials;
pub mod handshake;
pub mod handshake_slots;
pub mod kernel;
pub mod ports;
pub mod refusal;
pub mod rules;
pub mod settings;
pub mod socks;
pub mod target;
pub mod transparent;

mod script;
