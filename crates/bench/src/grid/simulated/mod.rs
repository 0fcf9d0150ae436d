//! Transfers in virtual time, by the machines that real transfers use.
//!
//! - `transfer`: a point of the grid as a network; `scheduled_changes`: changes of the path while it runs
//! - `sender`: measurement, choice and lanes of the sending side; `lanes`: its objects, one after
//!   the other; `rate`: the rate of all lanes; `train`: the measurement
//! - `receiver`: the receiving side; `agreement`: parameters on which both sides agree
//! - `neighbor`: a flow of TCP beside it; `endpoint`: the machines of a network

mod agreement;
mod lanes;
mod neighbor;
mod rate;
mod receiver;
mod scheduled_changes;
mod sender;
mod train;
mod transfer;

#[cfg(test)]
mod tests;

pub(crate) use scheduled_changes::{Change, Changed};
pub(crate) use transfer::Simulation;
