//! Floor 3: signaling of circuits between domains (Stargate; Quanta paper, section 3.1), as a machine without I/O.
//!
//! Each domain runs one [`Domain`]. It asks its own calendar through [`Resources`] and exchanges [`Message`]s with its
//! neighbors, which see only capacity between border points. `docs/src/signaling.md` has the messages and the proof.
//!
//! - A domain commits after all domains below it. The source domain commits last, which is the decision.
//! - A hold that is not committed ends at `hold_till`, by the clock of its own domain and without any message. A vector
//!   starts no earlier than `decide_till`, so an aborted path never carries data.
//! - A domain that has acknowledged `Commit` keeps its part until `Release` or the end of the vector. So a path that
//!   was reported as committed is committed everywhere.
//! - A child asks its parent again, and a parent repeats `Commit`. So domains that disagree find out when they next
//!   have contact. An unknown reservation is aborted. Without contact the vector ends.
//! - A record is durable before a message that depends on it leaves ([`Outbox`]).
//! - A closed reservation is remembered until `hold_till`. After that its `Hold` is refused, so a replay has no effect.
//!
//! - [`key`]: numbers of domains, ports and requests; [`refusal`]: reasons; [`config`]: timers and policies
//! - [`message`], [`wire`]: messages and their octets; [`record`]: records of a store; `fields`: parts of both
//! - [`offer`]: capacity function of a path, and the vector that fits into it; [`request`]: a request and its outcome
//! - [`topology`]: published links between domains; `routes`, `disjoint`: k shortest paths over them, and disjoint ones
//! - [`resources`]: local calendar as a trait; [`calendar_resources`]: implementation over `lighthaul-calendar`;
//! - [`outbox`]: outputs in write-ahead order; [`domain`]: machine; [`agent`]: rates of devices
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod agent;
pub mod calendar_resources;
pub mod config;
mod disjoint;
pub mod domain;
mod fields;
mod guard;
pub mod key;
pub mod message;
pub mod offer;
pub mod outbox;
mod rebooking;
pub mod record;
pub mod refusal;
pub mod request;
pub mod resources;
mod routes;
pub mod topology;
pub mod wire;

pub use agent::{Agent, RateChange};
pub use calendar_resources::CalendarResources;
pub use config::{Config, Policy, Timing};
pub use domain::{Domain, Reservation, Stage};
pub use key::{CorrelationId, DomainId, Hop, IdPrefix, Key, PortId, QueryId, Segment};
pub use message::{Body, Message};
pub use offer::Offer;
pub use outbox::{Outbox, Output};
pub use record::{Child, LostLeg, Record, StoredReservation, StoredStage};
pub use refusal::Refusal;
pub use request::{Outcome, Protection, Request, Signaling};
pub use resources::Resources;
pub use routes::strangers;
pub use topology::{DomainLink, Topology};
