//! The lists of keys and tokens that may call, read again when their files change.
//!
//! A line that makes no sense is logged when it appears, and keeps out the keys that it names.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_io::fs::watched_file::WatchedFile;
use tracing::warn;

use crate::allowed_keys::AllowedKeys;

/// One list.
#[derive(Debug)]
pub(crate) struct WatchedKeys {
    file: WatchedFile<AllowedKeys>,
}

impl WatchedKeys {
    /// Returns the list in the file at `path`, which is not read yet.
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self {
            file: WatchedFile::new(path),
        }
    }

    /// Returns the list as it is now; a missing file allows no key.
    ///
    /// # Errors
    /// The file is there and cannot be read, which is logged once.
    pub(crate) fn list(&self) -> io::Result<Arc<AllowedKeys>> {
        let parse = |octets: Option<Vec<u8>>, before: Option<&AllowedKeys>| {
            let list = AllowedKeys::parse(&octets.unwrap_or_default());
            let known = before.map_or(&[][..], |before| &before.faults);
            let new = list.faults.iter().filter(|fault| !known.contains(fault));
            new.take(FAULTS_MAX)
                .for_each(|fault| self.warn(&format!(" by {fault}")));
            Ok(list)
        };
        let report = |why: &io::Error| self.warn(&format!(": {why}"));
        self.file.parsed_or_reported(parse, report)
    }

    fn warn(&self, why: &str) {
        warn!("{} lets nobody in{why}", self.file.path().display());
    }
}

/// Faults that are logged of one reading.
const FAULTS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use lighthaul_io::crypto::identity::Fingerprint;

    use super::*;

    #[test]
    fn changed_list_counts_at_once() {
        let path = std::env::temp_dir().join(format!("lighthaul-roster-{}", std::process::id()));
        let key: Fingerprint = format!("sha256:{}", "1".repeat(64)).parse().unwrap();
        let roster = WatchedKeys::new(path.clone());
        assert!(roster.list().unwrap().rights(key).is_none());
        for (line, is_in) in [("", true), (" ro", true), (" rot=/x", false), ("", true)] {
            fs::write(&path, format!("{key} name{line}\n")).unwrap();
            assert_eq!(
                roster.list().unwrap().rights(key).is_some(),
                is_in,
                "{line}"
            );
        }
        fs::remove_file(&path).unwrap();
        assert!(roster.list().unwrap().rights(key).is_none());
    }
}
