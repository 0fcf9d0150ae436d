//! Domains in a chain, and measurements of them. Examples print these, and tests hold them to limits.
//!
//! - `configuration`, `running`: configurations and services; `books`: comparison of the books of all domains
//! - `set_ups`: one path at a time; `burst`: many at one moment; `bookings`: as many as possible
//! - `freed`: time until the capacity of a path that ends is free everywhere
//! - `boundaries`: changes of rates at interfaces that Linux shapes, and packets across them
//! - `mixed_boundaries`: changes of rates at an interface, a switch that speaks TL1 and a driver program

pub(crate) mod bookings;
pub(crate) mod books;
pub(crate) mod boundaries;
pub(crate) mod burst;
pub(crate) mod configuration;
pub(crate) mod freed;
pub(crate) mod mixed_boundaries;
pub(crate) mod running;
pub(crate) mod set_ups;
