//! Provider of the Network Service Interface (NSI) on the books of the scheduler.
//!
//! - [`resources`]: reservations for circuits; `threads`: work and deliveries in the background

pub mod resources;
mod threads;

pub use resources::BookResources;
pub(crate) use threads::NsiThreads;
