//! JSON types of the REST interface. Times are ISO 8601 in UTC, rates are in bits a second, sizes
//! in bytes.
//!
//! - [`timestamp`], [`amount`], `small_number`: times, quantities and priorities, as programs and
//!   people write them
//! - [`request`], [`reservation`], [`quote`]: a request for capacity, and the possible results
//! - [`link`], [`outage`]: the topology, the calendar of a link, and planned outages
//! - [`page`], [`event`]: parts of a list, and changes of reservations
//! - [`job`]: queued copies, their history and their logs
//! - [`problem`], [`health`]: errors, and the status of the service

pub mod amount;
pub mod event;
pub mod health;
pub mod job;
pub mod link;
pub mod outage;
pub mod page;
pub mod problem;
pub mod quote;
pub mod request;
pub mod reservation;
mod schema;
mod small_number;
pub mod timestamp;

pub use amount::{Bps, Bytes, IsoDuration, WithUnit};
pub use event::{Event, EventKind};
pub use health::Health;
pub use job::{CopyOptions, JobEventView, JobLogPiece, JobPage, JobStatus, JobView, NewJob};
pub use link::{Allocation, CalendarView, Free, LinkView, TopologyView};
pub use outage::{NewOutage, OutageView};
pub use page::Page;
pub use problem::{CounterOffer, Problem};
pub use quote::Quote;
pub use request::{Change, FlowAt, NewReservation, Provision, Reason, Shape};
pub use reservation::{JournalLine, Reservation, Step};
pub use timestamp::Timestamp;
