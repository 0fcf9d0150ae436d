//! `lighthaul scheduler`, and its clients: `book`, `quote`, `reservations`, `cancel` and `calendar`.
//!
//! - [`service`]: options of the scheduler as settings
//! - [`book`], [`list`]: making and listing reservations; `show`: their output; [`time`]: output of times
//! - [`calendar`]: free capacity over time, in the terminal (`blocks`) and as a picture (`chart`), along a time `axis`

pub(crate) mod book;
pub(crate) mod calendar;
pub(crate) mod list;
pub(crate) mod service;
pub(crate) mod time;

mod axis;
mod blocks;
mod chart;
mod show;
