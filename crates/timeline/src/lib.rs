//! Floor 5: calendars of links as pictures and in a terminal.
//!
//! - [`axis`]: the time axis; [`label`]: rates as text
//! - [`chart`]: calendars as a picture; [`blocks`]: one calendar in a terminal

pub mod axis;
pub mod blocks;
pub mod chart;
pub mod label;
