//! Floor 7: figures of bookings, simulated in virtual time.
//!
//! - [`calendars`]: delays of booked files, compared with packet switching
//! - [`domains`]: set-up times and refused requests of paths across domains
//!
//! [`figures`] draws all of them. Tables, plans and pictures are those of `lighthaul-lab`.

pub mod calendars;
pub mod domains;
pub mod figures;
