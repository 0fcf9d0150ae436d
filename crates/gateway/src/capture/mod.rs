//! How programs get in that know nothing of gateways.
//!
//! - [`socks`]: SOCKS5; [`connect`]: HTTP CONNECT: two ways to say where one wants to go, each a [`handshake`]
//! - [`refusal`]: why somebody cannot go there; [`credentials`]: who may ask
//! - [`transparent`]: connections that were meant for somebody else; [`rules`]: what has the kernel hand them over;
//!   [`settings`]: which; `script`: in which words

pub mod connect;
pub mod credentials;
pub mod handshake;
pub mod refusal;
pub mod rules;
pub mod settings;
pub mod socks;
pub mod transparent;

mod script;
