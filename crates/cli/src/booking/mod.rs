//! `lighthaul scheduler`, and the commands that ask one: `book`, `quote`, `reservations`, `cancel` and `calendar`.
//!
//! - [`args`]: their grammar; [`time`]: moments in it; [`service`]: the scheduler itself; [`reach`]: asking one
//! - [`book`]: booking, and what comes of it; [`list`]: what is booked; `show`: how it is told
//! - [`copy`]: copies that book; `ends`: from where to where; `rehearsal`: what they will need
//! - [`calendar`]: what is free when, in the terminal (`blocks`) and as a picture (`chart`), along an axis of time (`axis`)

pub(crate) mod args;
pub(crate) mod book;
pub(crate) mod calendar;
pub(crate) mod copy;
pub(crate) mod list;
pub(crate) mod reach;
pub(crate) mod service;
pub(crate) mod time;

mod axis;
mod blocks;
mod chart;
mod ends;
mod rehearsal;
mod show;
