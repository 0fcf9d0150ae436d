//! Floor 6: the scheduler, a service that books capacity of links, and its client.
//!
//! - [`api`]: REST interface; [`json`]: its JSON types; [`serve`]: network service
//! - [`books`]: reservations, policies and the calendar behind them; [`store`]: databases that keep
//!   them
//! - [`circuits`]: provisions circuits for reservations; [`topology`]: reads topology files
//! - [`identity`]: authentication and roles; [`policies`]: file of booking policies
//! - [`connections`]: limits of connections; `write_timeout`: timeout of writes; [`certificate`]: certificate
//!   of the server
//! - [`client`]: client of the REST interface; [`https`]: HTTP client with its own check of
//!   certificates
//! - [`error`]: errors of the service

pub mod api;
pub mod books;
pub mod certificate;
pub mod circuits;
pub mod client;
pub mod connections;
pub mod error;
pub mod https;
pub mod identity;
pub mod json;
pub mod policies;
pub mod serve;
pub mod store;
pub mod topology;
mod write_timeout;

pub use books::Books;
pub use error::{Error, Result};
