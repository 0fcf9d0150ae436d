//! `cargo xtask sim [SECONDS] [SEED]`: random simulations of every protocol, with checks.
//!
//! - [`worlds`]: scene from a seed, with its faults
//! - [`pairs`]: machines of each protocol; a new one gets a line in [`pairs::PROTOCOLS`]
//! - [`checks`]: every byte arrives once, no sender exceeds its rate, every transfer ends
//! - [`messages`], [`streams`]: message streams, and objects striped over streams
//! - [`slabs`], [`token`]: two gateways with their sessions, and gateways that share a channel in
//!   turns
mod checks;
mod messages;
mod pairs;
mod run;
mod slabs;
mod streams;
mod token;
mod worlds;

pub(crate) use run::main;
