//! Figures of simulated SABUL flows beside simulated TCP, and into slow disks.
//!
//! - [`plan`]: plans; [`simulate`]: their tables; [`figures`]: tables and pictures; [`plot`]: one picture

pub mod figures;
pub mod plan;
pub mod plot;
pub mod simulate;
