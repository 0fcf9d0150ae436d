//! REST interface.
//!
//! - [`router`]: all routes and their description; `desk`: state that they share
//! - `asked`: extractors of requests; `caller`: authentication; `refused`: errors as HTTP responses
//! - `reservations`, `links`, `outages`, `events`: resources; `health`: status and metrics
//! - `answers`, `turns`, `seats`: limits of memory, concurrent requests and event streams;
//!   `metrics`: counters
//! - `forward`: forwards changes to the instance that writes

mod answers;
mod asked;
mod caller;
mod desk;
mod events;
mod forward;
mod health;
mod links;
mod metrics;
mod outages;
mod refused;
mod reservations;
pub mod router;
mod seats;
mod turns;

pub(crate) use caller::Peer;
pub(crate) use desk::Desk;
pub(crate) use forward::forwarder;
