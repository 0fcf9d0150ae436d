//! The daemon: serves files and gateway links to clients, and connects to other daemons.
//!
//! - [`serve`]: the server; [`settings`]: its settings; `service`: shared state; `error`, `call_error`: faults
//! - `accept_queue`, `site_index`, [`client_hello`]: connections before the `ClientHello`; `handshakes`: after it;
//!   `recent_hosts`, `failed_sites`: hosts and sites that come first and last; `refused_keys`: keys to log once
//! - [`served_stores`]: object stores as directories of the root
//! - `admission`, `authorizer`: rights of a client, from `watched_keys`, [`allowed_keys`], [`rights`] or [`statement`]
//! - `session`, `rights_monitor`: one session; `request`, `session_request`: its request; `request_limits`,
//!   `request_rights`: its bounds; `send_settings`, `stream_request`: copies and streams; `joins`, `attempts`: its
//!   connections and retries; `resource_pool`, `cost`, `client_identity`: its share of the resources
//! - [`client`]: calls; [`greeting`]: ports; [`known_hosts`]: keys; [`third_party`], `relay`, `invitation`: relays
//! - [`gateway_links`], `link_table`, `link_message`: links of gateways; [`link_status`], [`link_metrics`]: their state
//! - `probe_router`: datagrams of the shared UDP port; `metrics`, [`exporter`], [`scrape_request`]: counters over HTTP

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
pub mod served_stores;
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
