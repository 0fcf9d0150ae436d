//! Versions of a file, for detecting changes.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Version of a file. Another file that was given the same name has another version. So has the same file after any
/// change, even if its modification time was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Device and inode number.
    pub inode: (u64, u64),
    /// Last status change, nanoseconds since 1970.
    pub changed: i64,
    /// Size and modification time.
    pub look: Look,
}

impl Version {
    /// Returns a hash of the version, for storing millions of versions.
    pub fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.inode, self.changed).hash(&mut hasher);
        let look = self.look;
        (look.size, look.seconds, look.nanos).hash(&mut hasher);
        hasher.finish()
    }
}

/// Size and modification time of a file at one moment, for detecting changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Size in bytes.
    pub size: u64,
    /// Modification time, seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the modification time.
    pub nanos: u32,
}

/// Nanoseconds since 1970 of a time that the kernel gives in two parts; distinct even if they exceed an `i64`.
pub(crate) const fn nanos(seconds: i64, nanos: i64) -> i64 {
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos)
}
