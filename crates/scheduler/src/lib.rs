//! Floor 6: the scheduler, a service that books capacity of links.
//!
//! - [`api`]: REST interface; [`serve`]: network service
//! - [`circuits`]: provisions circuits for reservations
//! - [`identity`]: authentication
//! - [`connections`]: limits of connections; `write_timeout`: timeout of writes; [`certificate`]: certificate
//!   of the server

pub mod api;
pub mod certificate;
pub mod circuits;
pub mod connections;
pub mod identity;
pub mod serve;
mod write_timeout;
