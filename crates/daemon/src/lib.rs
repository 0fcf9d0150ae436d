//! Floor 4: introduces the services to each other.
//!
//! - [`serve`]: the daemon; [`client`]: calling one
//! - [`known`]: the daemons that a user knows; [`allowed`]: the keys that a daemon knows, and their [`rights`];
//!   [`statement`]: what an authority signs for a key

pub mod allowed;
pub mod client;
pub mod known;
pub mod rights;
pub mod serve;
pub mod statement;

mod admission;
mod dispatch;
mod exporter;
mod lobby;
mod metrics;
mod session;
