//! Small files that people edit while a service runs: read again when they have changed.
//!
//! A file counts as changed when its device, inode, size or one of its times is another. File systems keep times in
//! steps, so a file that changed a moment ago is read again even if it looks equal: another edit within the same step
//! would look equal.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lighthaul_io::host::clock::unix_nanos;

/// File, and the result of its last reading.
#[derive(Debug)]
pub struct WatchedFile<T> {
    path: PathBuf,
    read: Mutex<Option<Read<T>>>,
    /// The last try failed, and that was reported.
    is_unreadable: AtomicBool,
}

#[derive(Debug)]
struct Read<T> {
    look: FileState,
    /// True if the file had not changed for a while when it was read, so that a later change alters its time.
    is_settled: bool,
    parsed: Arc<T>,
}

/// State of a file: device, inode, size, modification time and change time in nanoseconds. It is `None` for a missing
/// file.
type FileState = Option<(u64, u64, u64, i128, i128)>;

impl<T> WatchedFile<T> {
    /// Returns the file at `path`, which is not read yet.
    pub const fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: Mutex::new(None),
            is_unreadable: AtomicBool::new(false),
        }
    }

    /// The path at which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the result of `parse` for the present contents of the file. `parse` gets its octets, nothing if it is
    /// missing, and what was parsed before; it is called only if the file may have changed.
    ///
    /// # Errors
    /// The file cannot be read, or `parse` fails; what was parsed before is kept for the next call.
    pub fn parsed(
        &self,
        parse: impl FnOnce(Option<Vec<u8>>, Option<&T>) -> io::Result<T>,
    ) -> io::Result<Arc<T>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // before the octets are: a change in between is seen the next time
        let look = look(&self.path)?;
        let known = read
            .as_ref()
            .filter(|read| read.is_settled && read.look == look);
        if let Some(read) = known {
            return Ok(Arc::clone(&read.parsed));
        }
        let octets = match fs::read(&self.path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            octets => Some(octets?),
        };
        let before = read.as_ref().map(|read| read.parsed.as_ref());
        let parsed = Arc::new(parse(octets, before)?);
        *read = Some(Read {
            look,
            is_settled: is_settled(look),
            parsed: Arc::clone(&parsed),
        });
        Ok(parsed)
    }

    /// Returns the same as [`Self::parsed`], and passes the first of several consecutive failures to `report`.
    ///
    /// # Errors
    /// As for [`Self::parsed`].
    pub fn parsed_or_reported(
        &self,
        parse: impl FnOnce(Option<Vec<u8>>, Option<&T>) -> io::Result<T>,
        report: impl FnOnce(&io::Error),
    ) -> io::Result<Arc<T>> {
        let parsed = self.parsed(parse);
        let was_unreadable = self.is_unreadable.swap(parsed.is_err(), Ordering::Relaxed);
        parsed.inspect_err(|why| {
            if !was_unreadable {
                report(why);
            }
        })
    }
}

fn look(path: &Path) -> io::Result<FileState> {
    let meta = match fs::metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        meta => meta?,
    };
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Ok(Some((
        meta.dev(),
        meta.ino(),
        meta.len(),
        nanos(meta.mtime(), meta.mtime_nsec()),
        nanos(meta.ctime(), meta.ctime_nsec()),
    )))
}

/// Returns true if the last change is so old that another change would have another time.
fn is_settled(look: FileState) -> bool {
    look.is_none_or(|(.., changed)| i128::from(unix_nanos()) - changed > STEP)
}

/// Longer than the time resolution of file systems, in nanoseconds.
const STEP: i128 = 3_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "what a parser returns")]
    fn text(octets: Option<Vec<u8>>, _before: Option<&String>) -> io::Result<String> {
        let octets = octets.unwrap_or_else(|| b"missing".to_vec());
        Ok(String::from_utf8_lossy(&octets).into_owned())
    }

    #[test]
    fn edits_of_equal_length_are_seen_at_once_even_if_the_time_stays() {
        let path = std::env::temp_dir().join(format!("lighthaul-watched-{}", std::process::id()));
        let file = WatchedFile::new(path.clone());
        assert_eq!(*file.parsed(text).unwrap(), "missing");
        let old = std::time::SystemTime::UNIX_EPOCH;
        for said in ["one", "two", "six"] {
            fs::write(&path, said).unwrap();
            let edited = fs::OpenOptions::new().append(true).open(&path).unwrap();
            edited.set_modified(old).unwrap();
            assert_eq!(*file.parsed(text).unwrap(), said);
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(*file.parsed(text).unwrap(), "missing");
    }

    #[test]
    fn unchanged_file_with_an_old_time_is_not_parsed_again() {
        let path = std::env::temp_dir().join(format!("lighthaul-settled-{}", std::process::id()));
        fs::write(&path, "one").unwrap();
        let file = WatchedFile::new(path.clone());
        let first = file.parsed(text).unwrap();
        assert!(!file.read.lock().unwrap().as_ref().unwrap().is_settled);
        file.read.lock().unwrap().as_mut().unwrap().is_settled = true;
        let second = file.parsed(|_, _| panic!("it has not changed")).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn first_failure_in_a_row_is_reported() {
        // a directory cannot be read as a file
        let folder = WatchedFile::new(PathBuf::from("/proc/self"));
        let mut reports = 0;
        for _ in 0..3 {
            assert!(folder.parsed_or_reported(text, |_| reports += 1).is_err());
        }
        assert_eq!(reports, 1);
    }

    #[test]
    fn failed_parse_keeps_the_earlier_result() {
        let path = std::env::temp_dir().join(format!("lighthaul-failed-{}", std::process::id()));
        fs::write(&path, "one").unwrap();
        let file = WatchedFile::new(path.clone());
        file.parsed(text).unwrap();
        assert!(
            file.parsed(|_, _| Err(io::ErrorKind::InvalidData.into()))
                .is_err()
        );
        let parsed = file.parsed(|_, before| Ok(before.cloned().unwrap_or_default()));
        assert_eq!(*parsed.unwrap(), "one");
        fs::remove_file(&path).unwrap();
    }
}
