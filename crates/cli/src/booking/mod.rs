//! `lighthaul scheduler`, and its clients: `book`, `quote`, `reservations`, `cancel` and `calendar`.
//!
//! - [`service`]: options of the scheduler as settings
//! - [`book`], [`list`]: making and listing reservations; `show`: their output
//! - [`calendar`]: free capacity over time, in the terminal and as a picture

pub(crate) mod book;
pub(crate) mod calendar;
pub(crate) mod list;
pub(crate) mod service;

mod show;
