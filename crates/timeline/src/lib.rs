//! Floor 7: calendars of links as pictures and in a terminal.
//!
//! - [`axis`]: time from left to right; [`label`]: moments and rates as people read them
//! - [`chart`]: calendars as a picture; [`blocks`]: a calendar in a terminal

pub mod axis;
pub mod blocks;
pub mod chart;
pub mod label;
