//! Floor 4: introduces the services to each other.
//!
//! - [`serve`]: the daemon; [`client`]: calling one
//! - [`known`]: the daemons that a user knows; [`allowed`]: the keys that a daemon knows, and their [`rights`]

pub mod allowed;
pub mod client;
pub mod known;
pub mod rights;
pub mod serve;

mod admission;
mod dispatch;
mod exporter;
mod lobby;
mod metrics;
mod session;
