//! Commands of `lighthaul jobs`.
//!
//! - [`run`]: lists and changes; [`submit`]: submission; [`show`]: output of jobs; [`follow`]: jobs and logs until their end
//! - [`desk`]: a database of jobs, or a scheduler that has one; [`request`]: jobs of a scheduler; [`share`]: shares
//! - [`work`]: the worker

mod desk;
mod follow;
mod request;
pub(crate) mod run;
mod share;
mod show;
mod submit;
mod work;
