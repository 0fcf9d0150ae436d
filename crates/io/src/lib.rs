//! Floor 2: operating system services for machines.
//!
//! - [`net`]: sockets and paths; [`crypto`]: identities, TLS and sealed datagrams; [`control`]: control connections
//! - [`drive`]: the event loop of a machine; [`store`]: the bytes of its object
//! - [`host`]: time, waiting, processors, files of settings, panics and namespaces
//! - [`error`]: errors by their cause
#![expect(unsafe_code, reason = "system calls, behind safe functions")]
#![expect(clippy::disallowed_methods, reason = "this is the real world")]

pub mod control;
pub mod crypto;
pub mod drive;
pub mod error;
pub mod host;
pub mod net;
pub mod store;
