//! `lighthaul scheduler`, and its clients: `book`, `quote`, `reservations`, `modify`, `extend`, `cancel` and
//! `calendar`.
//!
//! - `service`: options of the scheduler as settings
//! - [`book`], [`list`], [`modify`]: making, listing and changing reservations; `show`: their output
//! - [`calendar`]: free capacity over time, in the terminal and as a picture

pub(crate) mod book;
pub(crate) mod calendar;
pub(crate) mod list;
pub(crate) mod modify;
#[cfg(feature = "scheduler")]
pub(crate) mod service;

mod show;
