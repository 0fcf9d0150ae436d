//! `lighthaul lab`: hosts in network namespaces on this machine.
//!
//! - [`run`]: commands between such hosts; `figures`: the figures of the papers; `fault`: their faults

pub(crate) mod run;

mod fault;
mod figures;
