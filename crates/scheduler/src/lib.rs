//! Floor 6: the scheduler, a service that books capacity of links.
//!
//! - [`api`]: REST interface; [`serve`]: network service
//! - [`circuits`]: provisions circuits for reservations; [`device_record`]: devices that may have circuits
//! - [`identity`]: authentication of clients, and rate limits of their requests; [`jobs`]: queue of copies
//! - [`nsi`]: provider of the Network Service Interface
//! - [`connections`]: limits of connections; `write_timeout`: timeout of writes; [`certificate`]: certificate
//!   of the server

pub mod api;
pub mod certificate;
pub mod circuits;
pub mod connections;
pub mod device_record;
pub mod identity;
pub mod jobs;
pub mod nsi;
pub mod serve;
mod write_timeout;
