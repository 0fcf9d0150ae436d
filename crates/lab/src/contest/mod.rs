//! Figures of flows that share a link of the lab in real time: machines that ship, on real sockets, and the kernel's TCP.
//!
//! - [`plan`]: which flows, over which links; [`flow`]: who they are; [`field`]: a link while flows share it
//! - [`measure`]: what is measured there; [`plot`]: the pictures; [`figures`]: all of them
//! - `machines`, `tcp`: what runs a flow; `trial`: one transfer beside a load, or to a disk; `press`: that load; `together`: what goes on at the same time
pub mod field;
pub mod figures;
pub mod flow;
pub mod measure;
pub mod plan;
pub mod plot;

mod machines;
mod tcp;
mod together;
mod trial;
