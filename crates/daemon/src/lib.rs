//! The daemon: serves files and gateway links to clients, and connects to other daemons.
//!
//! - [`serve`]: the server; [`settings`]; `service`: shared state; `probe_router`: datagrams; `error`, `call_error`: faults
//! - `accept_queue`, `site_index`, [`client_hello`]: connections before the `ClientHello`; `handshakes`: after it;
//!   `recent_hosts`, `failed_sites`: hosts and sites that come first and last; `refused_keys`: keys to log once
//! - `admission`, `authorizer`: rights of a client, from `watched_keys`, [`allowed_keys`], [`rights`] or [`statement`]
//! - `session`, `rights_monitor`: one session; `request`, `session_request`: its request; `request_limits`,
//!   `request_rights`: its bounds; `send_settings`, `stream_request`, `served_stores`: copies, streams; `joins`,
//!   `attempts`: its connections and retries; `resource_pool`, `cost`, `client_identity`: its share of the resources
//! - [`client`]: calls; [`greeting`]: ports; [`known_hosts`]: keys; [`third_party`], `relay`, `invitation`: relays
//! - [`gateway_links`], `link_table`, `link_message`: links of gateways; [`link_status`], [`link_metrics`], `metrics`: their
//!   state and that of sessions; [`exporter`], [`scrape_request`]: counters over HTTP

mod accept_queue;
mod admission;
pub mod allowed_keys;
mod attempts;
mod authorizer;
mod call_error;
pub mod client;
pub mod client_hello;
mod client_identity;
mod cost;
mod error;
pub mod exporter;
mod failed_sites;
pub mod gateway_links;
pub mod greeting;
mod handshakes;
mod invitation;
mod joins;
pub mod known_hosts;
mod link_message;
pub mod link_metrics;
pub mod link_status;
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
pub mod rights;
mod rights_monitor;
pub mod scrape_request;
mod send_settings;
pub mod serve;
mod served_stores;
mod service;
mod session;
mod session_request;
pub mod settings;
mod site_index;
pub mod statement;
mod stream_request;
pub mod third_party;
mod watched_keys;
