//! Queue of jobs behind the REST interface.
//!
//! - [`desk`]: submission, reading and changes by clients, each within its rights; [`job_error`]: refusals
//! - `specification`: what a request becomes on a worker; `view`: jobs as JSON
//! - `watch`: checks of the store, and of recurring jobs

pub mod desk;
pub mod job_error;
mod specification;
mod view;
mod watch;

pub use desk::JobDesk;
