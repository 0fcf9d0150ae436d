//! `lighthaul domains` and `lighthaul path`: the service of a domain, and paths across domains.
//!
//! - [`run`]: the commands; `request`: options as a request; `events`: domains and paths as JSON

pub(crate) mod events;
mod request;
pub(crate) mod run;
