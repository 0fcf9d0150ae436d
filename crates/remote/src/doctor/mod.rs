//! Checks of all that a copy needs: from the name of a host to the buffers of both kernels.
//!
//! - [`settings`]: the host to check
//! - [`steps`]: checks up to an established session; `ssh`: the same for a host that ssh logs in to; `path`: checks
//!   over the session; `interface`: judgment of network interfaces
//! - [`report`]: result of each check, and of all
pub mod report;
pub mod settings;
pub mod steps;

mod interface;
mod path;
mod ssh;

pub use report::{Check, Diagnosis};
pub use settings::Doctor;
pub use steps::examine;
