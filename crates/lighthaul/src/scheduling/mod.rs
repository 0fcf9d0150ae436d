//! Capacity that a scheduler reserves, with the types of its interface.
//!
//! - `reservation`: quotes, reservations, and the wait for their start

mod reservation;

pub use lighthaul_booking_client::client::Filter as ReservationFilter;
pub use lighthaul_booking_client::json::{Bps, Bytes, FlowAt, IsoDuration, JournalLine};
pub use lighthaul_booking_client::json::{NewReservation, Provision, Quote, Shape, Step};
pub use lighthaul_booking_client::json::{Reservation as ReservationRecord, Timestamp};
pub use lighthaul_circuit::reservation::ReservationState;

pub use reservation::{PendingStart, Reservation};
