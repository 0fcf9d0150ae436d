//! Checks of all that a copy needs: from the name of a host to the buffers of both kernels.
//!
//! - [`steps`]: checks up to an established session; `path`: checks over the session
//! - [`report`]: result of each check, and of all
pub mod report;
pub mod steps;

mod path;

pub use report::{Check, Diagnosis};
pub use steps::{Doctor, examine};
