//! Commands of `lighthaul jobs`.
//!
//! - [`run`]: submission, lists and changes; [`show`]: output of jobs; [`follow`]: jobs and logs until their end
//! - [`work`]: the worker

mod follow;
pub(crate) mod run;
mod show;
mod work;
