//! Floor 6: introduces the services to each other.
//!
//! - [`serve`]: the daemon; [`settings`]: how it serves; `service`: what its sessions share; [`client`]: calling one;
//!   `greeting`: what a far side says first
//! - [`known`]: the daemons that a user knows; [`allowed`]: the keys that a daemon knows, and their [`rights`];
//!   [`statement`]: what an authority signs for a key
//! - [`gateways`]: links between gateways; [`seen`]: what is to be seen of each; [`links`]: what Prometheus sees of them;
//!   `link_message`: what two of them say first; `link_table`: those that others have begun
//! - [`third`]: having one daemon send to another; `relay` and `invitation`: what those two do then
//! - `porch`, [`client_hello`], `crowd`: callers before their first message; `lobby`: while they shake hands;
//!   `acquaintances`: who comes first; `admission`: who is let in; `refused`: keys that are not; `joins`: further connections of one that is in
//! - `hall`, `memory`: everybody's share of sessions, connections and memory;
//!   `asked`: what is asked for; `request`: its kinds; `caps`: the most of that
//! - `standing`: what a caller may do, by the lists of `roster`; `warden`: whether it may go on; `tries`: a copy that
//!   comes again; `sending`: how files are sent; `carry`: streams

pub mod allowed_keys;
pub mod client;
pub mod client_hello;
pub mod gateway_links;
pub mod known_hosts;
pub mod link_metrics;
pub mod link_status;
pub mod rights;
pub mod serve;
pub mod settings;
pub mod statement;
pub mod third_party;

mod accept_queue;
mod admission;
mod attempts;
mod authorizer;
mod cost;
mod exporter;
mod greeting;
mod handshakes;
mod invitation;
mod joins;
mod link_message;
mod link_table;
mod metrics;
mod probe_router;
mod recent_hosts;
mod refused_keys;
mod relay;
mod request;
mod request_limits;
mod resource_pool;
mod rights_monitor;
mod send_settings;
mod service;
mod session;
mod session_request;
mod site_index;
mod stream_request;
mod watched_keys;
