//! Commands of `lighthaul jobs`.
//!
//! - [`run`]: submission, lists and changes; [`show`]: output of jobs; [`follow`]: jobs and logs until their end
//! - [`work`]: the worker; [`queue_file`]: file of the queue

mod follow;
mod queue_file;
pub(crate) mod run;
mod show;
mod work;
