//! Figures of flows that share a link of the lab in real time: protocol machines on real sockets,
//! and the kernel's TCP.
//!
//! - [`plan`]: flows and their links; [`flow`]: one flow; [`shared_link`]: a link that flows share;
//!   [`run`]: their run; `host_pair`: its hosts; `meter`: bytes of a flow
//! - [`measure`]: measurements; [`plot`]: pictures; [`figures`]: all figures
//! - `machines`, `tcp`: flows by protocol; `trial`: one transfer beside a load or to a disk;
//!   `together`: parallel work
pub mod figures;
pub mod flow;
pub mod measure;
pub mod plan;
pub mod plot;
pub mod run;
pub mod shared_link;

mod host_pair;
mod machines;
mod meter;
mod tcp;
mod together;
mod trial;
