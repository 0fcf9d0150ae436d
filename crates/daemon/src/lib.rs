//! Floor 4: introduces the services to each other.
//!
//! - [`serve`]: the daemon; [`client`]: calling one
//! - [`known`]: the daemons that a user knows; [`allowed`]: the keys that a daemon knows, and their [`rights`];
//!   [`statement`]: what an authority signs for a key
//! - [`gateways`]: links between gateways; [`links`]: what is to be seen of them; `link_table`: those that others have begun
//! - [`third`]: having one daemon send to another; `relay` and `invitation`: what those two do then
//! - `admission`, `lobby`: letting callers in; `joins`: further connections of one that is in;
//!   `tries`: a copy that comes again; `warden`: whether they may stay

pub mod allowed;
pub mod client;
pub mod gateways;
pub mod known;
pub mod links;
pub mod rights;
pub mod serve;
pub mod statement;
pub mod third;

mod admission;
mod dispatch;
mod exporter;
mod invitation;
mod joins;
mod link_table;
mod lobby;
mod metrics;
mod relay;
mod session;
mod tries;
mod warden;
