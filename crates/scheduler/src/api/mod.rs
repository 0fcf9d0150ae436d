//! REST interface.
//!
//! - [`router`]: all routes and their description; `state`: state that they share
//! - `extract`: extractors of requests; `authenticated`, `peer`: authentication and origin; `api_error`: errors as HTTP
//!   responses
//! - `reservations`, `links`, `outages`, `events`, `jobs`: resources; `health`: status and metrics
//! - `request_memory`, `response_memory`, `concurrency`, `listener_slots`: limits of memory, concurrent requests and
//!   event streams; `metrics`: counters
//! - `nsi`: provider of the Network Service Interface
//! - `forward`: forwards changes to the instance that writes

mod api_error;
mod authenticated;
mod concurrency;
mod events;
mod extract;
mod forward;
mod health;
mod jobs;
mod links;
mod listener_slots;
mod metrics;
mod nsi;
mod outages;
mod peer;
mod request_memory;
mod reservations;
mod response_memory;
pub mod router;
mod state;

pub(crate) use forward::Forwarder;
pub(crate) use peer::Peer;
pub(crate) use state::ApiState;
