//! Figures of latencies: the age of small messages at their arrival, and their loss, over the
//! packet loss rate.
//!
//! - [`plan`]: messages, path and protocols
//! - [`simulate`]: message streams and RBUDP by the protocol machines; [`tcp`]: a model of TCP for
//!   comparison
//! - [`plot`]: pictures; [`figures`]: all figures
pub mod figures;
pub mod plan;
pub mod plot;
pub mod simulate;
pub mod tcp;
