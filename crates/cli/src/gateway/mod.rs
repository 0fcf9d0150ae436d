//! `lighthaul gateway`.
//!
//! - [`run`]: options as settings of the service; `status`: `lighthaul gateway status`

pub(crate) mod run;

mod status;
