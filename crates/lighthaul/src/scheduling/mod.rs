//! Capacity that a scheduler reserves, with the types of its interface.
//!
//! - `reservation`: quotes, reservations, and the wait for their start; `events`: events of reservations and jobs

mod events;
mod reservation;

pub use lighthaul_booking_client::client::Filter as ReservationFilter;
pub use lighthaul_booking_client::json::{Bps, Bytes, FlowAt, IsoDuration, JournalLine};
pub use lighthaul_booking_client::json::{Event as ReservationEvent, EventKind};
pub use lighthaul_booking_client::json::{JobEventView as JobEvent, JobStatus};
pub use lighthaul_booking_client::json::{NewReservation, Provision, Quote, Shape, Step};
pub use lighthaul_booking_client::json::{Reservation as ReservationRecord, Timestamp};
pub use lighthaul_booking_client::reservation::ReservationState;

pub use events::Events;
pub use reservation::{PendingStart, Reservation};
