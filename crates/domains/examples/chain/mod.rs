//! Domains in a chain, and measurements of them. Examples print these, and tests hold them to limits.
//!
//! - `configuration`, `running`: configurations and services; `books`: comparison of the books of all domains
//! - `set_ups`: one path at a time; `burst`: many at one moment; `bookings`: as many as possible
//! - `boundaries`: changes of rates at interfaces that Linux shapes, and packets across them

pub(crate) mod bookings;
pub(crate) mod books;
pub(crate) mod boundaries;
pub(crate) mod burst;
pub(crate) mod configuration;
pub(crate) mod running;
pub(crate) mod set_ups;
