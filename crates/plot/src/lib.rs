//! Floor 1: charts and pictures as PNG and SVG, for the lab's figures and for calendars.
//!
//! - [`canvas`]: antialiased lines, shapes and text; [`axis`]: scales and ticks
//! - [`sheet`]: panels of curves below a title; [`panel`]: one pair of axes; [`curve`]: points, lines and marks
//! - `labels`: places of labels beside curves
//! - [`heat_map`]: matrices of colored cells
//! - [`picture`]: simple shapes, as PNG or SVG

pub mod axis;
pub mod canvas;
pub mod curve;
pub mod heat_map;
pub mod panel;
pub mod picture;
pub mod sheet;

mod labels;
