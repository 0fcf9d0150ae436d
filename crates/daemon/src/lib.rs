//! The daemon: serves files and gateway links to clients, and connects to other daemons.
//!
//! - [`serve`]: the server; [`settings`]: its settings; `service`: state that its sessions share; `error`,
//!   `call_error`: faults
//! - `accept_queue`, `site_index`, [`client_hello`]: connections before their `ClientHello`; `handshakes`: in the TLS
//!   handshake; `recent_hosts`, `failed_sites`: hosts and sites that get places first and last; `refused_keys`: keys
//!   that are logged once
//! - `admission`, `authorizer`: rights of a client, by `watched_keys`, [`allowed_keys`] and [`rights`], or by a signed
//!   [`statement`]
//! - `session`, `rights_monitor`: one session; `request`, `session_request`: its request; `request_limits`,
//!   `request_rights`: its bounds; `send_settings`, `stream_request`: copies and streams; `joins`, `attempts`: its
//!   connections and retries; `resource_pool`, `cost`, `client_identity`: its share of sessions, memory, threads and
//!   files
//! - [`client`]: calling a daemon; [`greeting`]: its port, from ssh; [`known_hosts`]: its key; [`third_party`],
//!   `relay`, `invitation`: two daemons
//! - [`gateway_links`], `link_table`, `link_message`: links between gateways; [`link_status`], [`link_metrics`]: their
//!   state
//! - `probe_router`: datagrams of the shared UDP port; `metrics`, [`exporter`], [`scrape_request`]: counters and their
//!   HTTP server

pub mod allowed_keys;
pub mod client;
pub mod client_hello;
pub mod exporter;
pub mod gateway_links;
pub mod greeting;
pub mod known_hosts;
pub mod link_metrics;
pub mod link_status;
pub mod rights;
pub mod scrape_request;
pub mod serve;
pub mod settings;
pub mod statement;
pub mod third_party;

mod accept_queue;
mod admission;
mod attempts;
mod authorizer;
mod call_error;
mod client_identity;
mod cost;
mod error;
mod failed_sites;
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
mod request_rights;
mod resource_pool;
mod rights_monitor;
mod send_settings;
mod service;
mod session;
mod session_request;
mod site_index;
mod stream_request;
mod watched_keys;
