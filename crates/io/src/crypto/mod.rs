//! Authentication and encryption.
//!
//! - [`identity`]: keys of hosts and users; [`tls`]: TLS 1.3 with them
//! - [`seal`]: encryption of datagrams, by a [`cipher`]; `aead`: the libraries that encrypt
pub mod cipher;
pub mod identity;
pub mod seal;
pub mod tls;

mod aead;
