//! A figure of its own kind: how old small messages are when they come, and how many do not, over the loss rate.
//!
//! - [`plan`]: which messages over which path, and who carries them
//! - [`simulate`]: message streams and RBUDP by the machines that ship; [`tcp`]: a sketch to compare with
//! - [`plot`]: the picture; [`figures`]: all of them
pub mod figures;
pub mod plan;
pub mod plot;
pub mod simulate;
pub mod tcp;
