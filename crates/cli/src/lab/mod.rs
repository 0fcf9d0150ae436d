//! `lighthaul lab`: hosts in network namespaces on this machine.
//!
//! - [`run`]: commands between such hosts; `figures`: the figures of the papers

pub(crate) mod run;

mod figures;
