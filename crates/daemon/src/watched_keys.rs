//! Lists of keys or tokens of clients, read again when their files change.
//!
//! A malformed line is logged when it appears. The keys in it are denied.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_fs::watched_file::WatchedFile;
use tracing::warn;

use crate::allowed_keys::AllowedKeys;

/// List of keys or tokens in a file.
#[derive(Debug)]
pub(crate) struct WatchedKeys {
    file: WatchedFile<AllowedKeys>,
}

impl WatchedKeys {
    /// Creates the list in the file at `path`, without reading it.
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self {
            file: WatchedFile::new(path),
        }
    }

    /// Returns the current list; a missing file allows no key.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read. This is logged once.
    pub(crate) fn list(&self) -> io::Result<Arc<AllowedKeys>> {
        let parse = |octets: Option<Vec<u8>>, before: Option<&AllowedKeys>| {
            let list = AllowedKeys::parse(&octets.unwrap_or_default());
            let known = before.map_or(&[][..], |before| &before.faults);
            let new = list.faults.iter().filter(|fault| !known.contains(fault));
            new.take(FAULTS_MAX).for_each(|fault| {
                self.warn(&format!(", {fault}; no key in this line is accepted"));
            });
            Ok(list)
        };
        let report = |why: &io::Error| self.warn(&format!(": {why}; no key is accepted"));
        self.file.parsed_or_reported(parse, report)
    }

    fn warn(&self, why: &str) {
        warn!("{}{why}", self.file.path().display());
    }
}

/// Maximum number of faults that are logged for one change.
const FAULTS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use lighthaul_io::crypto::identity::Fingerprint;

    use super::*;

    #[test]
    fn changed_list_is_effective_at_once() {
        let path =
            std::env::temp_dir().join(format!("lighthaul-watched-keys-{}", std::process::id()));
        let key: Fingerprint = format!("sha256:{}", "1".repeat(64)).parse().unwrap();
        let watched = WatchedKeys::new(path.clone());
        assert!(watched.list().unwrap().rights(key).is_none());
        for (line, is_in) in [("", true), (" ro", true), (" rot=/x", false), ("", true)] {
            fs::write(&path, format!("{key} name{line}\n")).unwrap();
            assert_eq!(
                watched.list().unwrap().rights(key).is_some(),
                is_in,
                "{line}"
            );
        }
        fs::remove_file(&path).unwrap();
        assert!(watched.list().unwrap().rights(key).is_none());
    }
}
