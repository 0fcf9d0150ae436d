//! Floor 6: calendars of links, and paths across domains, as pictures and in a terminal.
//!
//! - [`axis`]: the time axis; [`label`]: rates as text
//! - [`chart`]: calendars as a picture; [`blocks`]: one calendar in a terminal
//! - [`path_drawing`]: a path with its rates over time; [`domain_tree`]: domains and the links between them

pub mod axis;
pub mod blocks;
pub mod chart;
pub mod domain_tree;
pub mod label;
pub mod path_drawing;
