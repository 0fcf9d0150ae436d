//! A file that is being downloaded, under a temporary name. A large one has a journal beside it, with the checksum of each range, for a later run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use lighthaul_buckets::attributes::Stamp;
use lighthaul_buckets::checksum;
use lighthaul_files::temp_names::{journal, partial};
use lighthaul_fs::disk::{self, Root};
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, futimens};

/// Temporary file, locked against other copies.
#[derive(Debug)]
pub(crate) struct Partial {
    file: File,
    pub(crate) name: PathBuf,
    journal: Option<Mutex<File>>,
    pub(crate) journal_name: PathBuf,
    /// Checksums of ranges that an earlier run has written, by number.
    pub(crate) held: BTreeMap<u64, u64>,
}

impl Partial {
    /// Opens the temporary file of `path`. `subject` describes the object, if it is large; only ranges of the same object are held.
    pub(crate) fn open(root: &mut Root, path: &Path, subject: Option<&str>) -> io::Result<Self> {
        let (name, journal_name) = (partial(path), journal(path));
        let file = root.lock(&name)?;
        let mut opened = Self {
            file,
            name,
            journal: None,
            journal_name,
            held: BTreeMap::new(),
        };
        let Some(subject) = subject else {
            opened.file.set_len(0)?;
            if root.look(&opened.journal_name)?.is_some() {
                root.remove(&opened.journal_name)?;
            }
            return Ok(opened);
        };
        let mut journal = root.lock(&opened.journal_name)?;
        let mut text = Vec::new();
        (&journal).take(JOURNAL_MAX).read_to_end(&mut text)?;
        let text = String::from_utf8(text).unwrap_or_default();
        let records = text
            .strip_prefix(subject)
            .and_then(|rest| rest.strip_prefix('\n'));
        if let Some(records) = records {
            let len;
            (opened.held, len) = read(records);
            // a truncated record would damage the next one
            let len = (subject.len() + 1 + len) as u64;
            journal.set_len(len)?;
            journal.seek(SeekFrom::Start(len))?;
        } else {
            opened.file.set_len(0)?;
            journal.rewind()?;
            journal.set_len(0)?;
            journal.write_all(format!("{subject}\n").as_bytes())?;
        }
        opened.journal = Some(Mutex::new(journal));
        Ok(opened)
    }

    /// Reserves disk space, so that a full disk is known now.
    pub(crate) fn allocate(&self, size: u64) -> io::Result<()> {
        disk::allocate(&self.file, size.max(1))
    }

    /// Returns true if the file has the bytes of a range that an earlier run has written.
    pub(crate) fn has(&self, (from, till): (u64, u64), crc: u64) -> io::Result<bool> {
        let len = usize::try_from(till - from).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        match self.file.read_exact_at(&mut bytes, from) {
            Ok(()) => Ok(checksum::of(&bytes) == crc),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes bytes at `offset`.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Notes in the journal, if there is one, that the file has a range.
    pub(crate) fn note(&self, number: u64, crc: u64) -> io::Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.write_all(format!("{number} {crc:016x}\n").as_bytes())
    }

    /// Sets size, time and mode of the complete file.
    pub(crate) fn finish(&self, size: u64, time: Stamp, mode: u32) -> io::Result<()> {
        self.file.set_len(size)?;
        // downloaded bytes never run with the rights of the owner
        let mode = rustix::fs::Mode::from_bits_truncate(mode & 0o777);
        rustix::fs::fchmod(&self.file, mode)?;
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: time.seconds,
                tv_nsec: time.nanos.into(),
            },
        };
        Ok(futimens(&self.file, &times)?)
    }

    /// Writes the file to disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Removes the file and its journal.
    pub(crate) fn discard(&self, root: &mut Root) {
        root.remove(&self.name).ok();
        if self.journal.is_some() {
            root.remove(&self.journal_name).ok();
        }
    }

    /// Gives the file its name.
    pub(crate) fn publish(&self, root: &mut Root, path: &Path) -> io::Result<()> {
        root.rename(&self.name, path)?;
        if self.journal.is_some() {
            root.remove(&self.journal_name)?;
        }
        Ok(())
    }
}

/// Reads the records of a journal, and their length. The last record may be truncated.
fn read(records: &str) -> (BTreeMap<u64, u64>, usize) {
    let mut len = 0;
    let lines = records.split_inclusive('\n');
    let records = lines.map_while(|line| {
        let (number, crc) = line.strip_suffix('\n')?.split_once(' ')?;
        let value = u64::from_str_radix(crc, 16).ok();
        let record = (number.parse().ok()?, value.filter(|_| crc.len() == 16)?);
        len += line.len();
        Some(record)
    });
    (records.collect(), len)
}

/// Maximum number of bytes of a journal.
const JOURNAL_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_the_same_object_are_held_until_the_file_differs() {
        let folder = std::env::temp_dir().join(format!("objects-partial-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut root = Root::open(&folder).unwrap();
        let path = Path::new("x");
        let first = Partial::open(&mut root, path, Some("one")).unwrap();
        let crc = checksum::of(b"bytes");
        first.write(b"bytes", 7).unwrap();
        first.note(3, crc).unwrap();
        let other = Partial::open(&mut root, path, Some("one"));
        assert_eq!(other.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        let again = Partial::open(&mut root, path, Some("one")).unwrap();
        assert_eq!(again.held, BTreeMap::from([(3, crc)]));
        assert!(again.has((7, 12), crc).unwrap() && !again.has((6, 11), crc).unwrap());
        assert!(!again.has((7, 13), crc).unwrap());
        drop(again);
        let changed = Partial::open(&mut root, path, Some("two")).unwrap();
        assert!(changed.held.is_empty() && !changed.has((7, 12), crc).unwrap());
        drop(changed);
        drop(Partial::open(&mut root, path, None).unwrap());
        assert!(root.look(&journal(path)).unwrap().is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn record_that_was_cut_off_does_not_count() {
        assert_eq!(
            read("0 00000000000000aa\n1 00000000000000"),
            (BTreeMap::from([(0, 0xaa)]), 19)
        );
        assert_eq!(read("0 aa\n1 00000000000000aa\n"), (BTreeMap::new(), 0));
    }

    #[test]
    fn record_after_one_that_was_cut_off_counts() {
        let folder = std::env::temp_dir().join(format!("objects-torn-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut root = Root::open(&folder).unwrap();
        let path = Path::new("x");
        let first = Partial::open(&mut root, path, Some("one")).unwrap();
        let crc = checksum::of(b"bytes");
        first.write(b"bytes", 7).unwrap();
        first.note(3, crc).unwrap();
        drop(first);
        let at = folder.join(journal(path));
        let mut torn = std::fs::OpenOptions::new().append(true).open(at).unwrap();
        torn.write_all(b"4 00000").unwrap();
        let second = Partial::open(&mut root, path, Some("one")).unwrap();
        second.note(5, crc).unwrap();
        drop(second);
        let third = Partial::open(&mut root, path, Some("one")).unwrap();
        assert_eq!(third.held, BTreeMap::from([(3, crc), (5, crc)]));
        drop(third);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
