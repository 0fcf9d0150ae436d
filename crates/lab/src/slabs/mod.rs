//! Figures of slabs (SLaBS): what gateways make of their buffers, of channels that open late, and of one channel for several.
//!
//! - [`plan`]: a figure to be; [`simulate`]: its numbers, by the machines that ship
//! - [`stage`]: gateways in virtual time; [`dialled`]: one whose channel opens when it is needed; [`turns`]: the slots of a cluster
//! - [`measured`]: one whose numbers programs made, through gateways and by themselves
//! - `panels`, [`plot`]: the picture; [`figures`]: all of them
pub mod dialled;
pub mod figures;
pub mod measured;
pub mod plan;
pub mod plot;
pub mod simulate;
pub mod stage;
pub mod turns;

mod panels;
