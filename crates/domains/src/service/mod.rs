//! Service of one domain: one thread with the machine, and the calls of its users.
//!
//! ```text
//!  turn: events (at least one, or a timer) --> machine --> records --> one transaction --> confirmed
//!                                                    \--> messages, vectors, outcomes, in the order of the machine
//! ```
//!
//! Records of a turn are written together. What depends on them leaves afterwards ([`lighthaul_stargate::Outbox`]). The
//! thread ends if the store fails: what was not stored was not sent either.
//!
//! - [`Service`]: start and end; [`Handle`]: calls, from any thread; [`Ticket`]: outcomes of one request
//! - [`Status`]: links and reservations; `event`: events for the thread
//! - `places`: room of each neighbor in the queue; `driver`: turns of the thread; `callers`: users that wait for outcomes; `device_record`: devices that may have
//!   circuits

mod callers;
mod device_record;
mod driver;
mod event;
mod handle;
mod places;
mod running;
mod status;

pub use handle::{Handle, Ticket};
pub use running::Service;
pub use status::{ReservationStatus, Status};
