//! Figures of paths across domains, by the signaling machine in virtual time.
//!
//! - [`plan`]: plans of figures; [`network`]: domains in a chain and their messages
//! - [`simulate`]: set-up times, blocked requests and utilization; [`plot`]: pictures; [`figures`]: all figures
pub mod figures;
pub mod network;
pub mod plan;
pub mod plot;
pub mod simulate;
