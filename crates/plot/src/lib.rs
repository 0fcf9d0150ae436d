//! Floor 1: charts and pictures as PNG and SVG, for the lab's figures and for calendars.
//!
//! - [`canvas`]: antialiased lines, shapes and text; [`axis`]: scales, grids and curves on it
//! - [`chart`]: curves over one pair of axes, with a legend
//! - [`heat_map`]: matrices of colored cells
//! - [`picture`]: simple shapes, as PNG or SVG

pub mod axis;
pub mod canvas;
pub mod chart;
pub mod heat_map;
pub mod picture;
