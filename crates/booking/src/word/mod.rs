//! What crosses the REST interface, as JSON: times are ISO 8601 in UTC, rates are bits a second, sizes are bytes.
//!
//! - [`moment`], [`amount`]: times and quantities as people and programs write them
//! - [`request`]: what is asked for; [`reservation`]: what came of it; [`quote`]: what would
//! - [`link`]: the topology, and what is free of a link when; [`outage`]: when it is out
//! - [`page`], [`event`]: one after another; [`problem`]: why not; [`health`]: how the service is

pub mod amount;
pub mod event;
pub mod health;
pub mod link;
pub mod moment;
pub mod outage;
pub mod page;
pub mod problem;
pub mod quote;
pub mod request;
pub mod reservation;
mod schema;

pub(crate) use amount::WithUnit;
pub use amount::{Bps, Bytes, Span};
pub use event::{Event, Kind};
pub use health::Health;
pub use link::{Allocation, CalendarView, Free, LinkView, TopologyView};
pub use moment::Moment;
pub use outage::{NewOutage, OutageView};
pub use page::Page;
pub use problem::{CounterOffer, Problem};
pub use quote::Quote;
pub use request::{Change, FlowAt, NewReservation, Provision, Shape, Why};
pub use reservation::{JournalLine, Reservation, Step};
