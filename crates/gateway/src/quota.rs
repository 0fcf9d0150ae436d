//! Leave to have sessions.

use std::fmt::Debug;

/// Leave to have sessions, which links share.
pub trait Quota: Debug + Send + Sync {
    /// Returns true if a link may have so many sessions from now on. A smaller number gives some back.
    fn may_have(&self, sessions: usize) -> bool;
}
