//! `lighthaul cp`.
//!
//! - [`run`]: the command; [`retry`]: attempts after network failures, times and lists of failures
//! - [`circuit`]: copies on a reserved circuit; `ends`: both hosts of a copy; `rehearsal`: the bytes that it will send
//! - [`third`]: copies between two other hosts; [`passage`]: copies through a gateway

pub(crate) mod circuit;
pub(crate) mod passage;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod third;

mod ends;
mod rehearsal;
