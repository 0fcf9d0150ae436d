//! Quota of sessions.

use std::fmt::Debug;

/// Quota of sessions that several links share.
pub trait Quota: Debug + Send + Sync {
    /// Returns true if a link may have `sessions` sessions from now on. A smaller number returns the others.
    fn may_have(&self, sessions: usize) -> bool;
}
