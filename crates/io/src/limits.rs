//! What the system lets this process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files that may be open to what the system allows, and returns it.
pub fn raise_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let most = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    most.unwrap_or(u64::MAX)
}
