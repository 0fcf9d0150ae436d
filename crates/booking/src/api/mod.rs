//! The REST interface.
//!
//! - `desk`: what every request is answered from; `asked`: how it is read; `caller`: who asks; `refused`: why not
//! - `reservations`, `links`, `outages`, `events`: what is asked for; `seats`: how many may hear of changes; `health`: by machines that look after it
//! - [`router`]: all of it, with its description; `forward`: what another instance has to answer

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
