//! Floor 6: introduces the services to each other.
//!
//! - [`serve`]: the daemon; [`client`]: calling one
//! - [`known`]: the daemons that a user knows; [`allowed`]: the keys that a daemon knows, and their [`rights`];
//!   [`statement`]: what an authority signs for a key
//! - [`gateways`]: links between gateways; [`links`]: what is to be seen of them; `link_message`: what two of them say first; `link_table`: those that others have begun
//! - [`third`]: having one daemon send to another; `relay` and `invitation`: what those two do then
//! - `porch`, `client_hello`, `crowd`: callers before their first message; `lobby`: while they shake hands;
//!   `acquaintances`: who comes first; `admission`: who is let in; `joins`: further connections of one that is in
//! - `hall`, `memory`: everybody's share of sessions, connections and memory; `asked`: what is asked for, and `caps`: the most of
//!   that
//! - `standing`: what a caller may do, by the lists of `roster`; `warden`: whether it may go on; `tries`: a copy that
//!   comes again; `carry`: streams

pub mod allowed;
pub mod client;
pub mod gateways;
pub mod known;
pub mod links;
pub mod rights;
pub mod serve;
pub mod statement;
pub mod third;

mod acquaintances;
mod admission;
mod asked;
mod caps;
mod carry;
mod client_hello;
mod cost;
mod crowd;
mod dispatch;
mod exporter;
mod hall;
mod invitation;
mod joins;
mod link_message;
mod link_table;
mod lobby;
mod metrics;
mod porch;
mod relay;
mod roster;
mod session;
mod standing;
mod tries;
mod warden;
