//! Contents of small files, which travel with the list of entries.
//!
//! The first small files of a list need no request: the sender puts their bytes before the page that lists them, and
//! all of that fits in the first packets of a connection. The receiver takes the bytes of the files that it wants.

use lighthaul_files::digest::Digest;
use lighthaul_io::control::bounded;
use serde::{Deserialize, Serialize};

/// Maximum total size of the contents, so that TCP sends them and the list at once on a new connection.
pub const BYTES_MAX: usize = 12 << 10;
/// Maximum number of files with contents.
pub const FILES_MAX: usize = 64;

/// Content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Number of the file among the entries.
    pub number: u64,
    /// All bytes of the file.
    #[serde(deserialize_with = "bounded::list::<BYTES_MAX, _, _>")]
    pub bytes: Vec<u8>,
    /// Digest of the bytes.
    pub digest: Digest,
}

/// Files and bytes that are left for contents.
#[derive(Clone, Copy, Debug)]
pub struct ContentsLimit {
    files: usize,
    bytes: usize,
}

impl Default for ContentsLimit {
    fn default() -> Self {
        Self {
            files: FILES_MAX,
            bytes: BYTES_MAX,
        }
    }
}

impl ContentsLimit {
    /// Returns the limit of a copy that sends no contents.
    pub const fn none() -> Self {
        Self { files: 0, bytes: 0 }
    }

    /// Counts a file of `len` bytes. Returns false if that is too much.
    pub fn take(&mut self, len: u64) -> bool {
        let Ok(len) = usize::try_from(len) else {
            return false;
        };
        if self.files == 0 || len > self.bytes {
            return false;
        }
        self.files -= 1;
        self.bytes -= len;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_reached_by_bytes_or_by_files() {
        let mut limit = ContentsLimit::default();
        assert!(!limit.take(BYTES_MAX as u64 + 1));
        assert!(limit.take(BYTES_MAX as u64));
        assert!(!limit.take(1));
        let mut limit = ContentsLimit::default();
        assert!((0..FILES_MAX).all(|_| limit.take(1)));
        assert!(!limit.take(1));
        assert!(!ContentsLimit::none().take(0));
    }
}
