//! File without a name for bytes whose parts are not complete. Its size on disk is that of the parts that are open together.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock};
use rustix::io::Errno;

use crate::spool_space::Space;

/// File of slots of equal length, each for one part.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    slot_len: u64,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// Slots that were used and are free.
    free: Vec<u64>,
    /// Number of slots that were ever used.
    count: u64,
}

/// Place of one part. Its space is freed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    spool: Arc<Spool>,
    number: u64,
    _space: Space,
}

impl Spool {
    /// Creates a file in `folder`. It is gone when this process ends, also after a kill. Fails if its file system cannot
    /// free parts of a file.
    pub(crate) fn create(folder: &Path, slot_len: u64) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file: File = match rustix::fs::open(folder, flags, mode) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => named(folder)?,
            opened => opened?.into(),
        };
        punch(&file, 0, slot_len).map_err(|_| {
            io::Error::other("its file system cannot free parts of a file; choose another --spool")
        })?;
        Ok(Self {
            file,
            slot_len,
            slots: Mutex::default(),
        })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a part, which has this space.
    pub(crate) fn slot(self: &Arc<Self>, space: Space) -> Slot {
        let mut slots = self.slots();
        let free = slots.free.pop();
        let number = free.unwrap_or_else(|| {
            slots.count += 1;
            slots.count - 1
        });
        Slot {
            spool: Arc::clone(self),
            number,
            _space: space,
        }
    }
}

impl Slot {
    /// Writes bytes at `offset`.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let at = self.number * self.spool.slot_len + offset;
        self.spool.file.write_all_at(bytes, at)
    }

    /// Reads the first bytes.
    pub(crate) fn read(&self, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let at = self.number * self.spool.slot_len;
        self.spool.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let len = self.spool.slot_len;
        // it succeeded when the file was created
        punch(&self.spool.file, self.number * len, len).ok();
        self.spool.slots().free.push(self.number);
    }
}

/// Frees the space of a range of a file.
fn punch(file: &File, at: u64, len: u64) -> rustix::io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, at, len)
}

/// Creates a file with a name that is removed at once, for file systems without files that have none.
fn named(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!("{PREFIX}{}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
    match std::fs::remove_file(&path) {
        // another daemon took it for a leftover
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(file.into()),
    }
}

/// Removes files of daemons that were killed between the two steps of [`named`].
pub(crate) fn remove_leftovers(folder: &Path) {
    for item in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !item.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(item.path(), flags, Mode::empty());
        let locked = opened.map(|file| flock(&file, FlockOperation::NonBlockingLockExclusive));
        if locked.is_ok_and(|locked| locked.is_ok()) {
            std::fs::remove_file(item.path()).ok();
        }
    }
}

/// Beginning of the names of spools on file systems that need names.
const PREFIX: &str = ".lighthaul-spool-";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::spool_space::SpoolSpace;

    #[test]
    fn freed_slots_are_used_again_and_need_no_space() {
        let space = Arc::new(SpoolSpace::new(4 << 20));
        let take = || space.take(1, 1 << 20).unwrap();
        let spool = Arc::new(Spool::create(&std::env::temp_dir(), 1 << 20).unwrap());
        let (one, other) = (spool.slot(take()), spool.slot(take()));
        assert_ne!(one.number, other.number);
        other.write(b"bytes", 3).unwrap();
        other.write(b"abc", 0).unwrap();
        assert_eq!(other.read(8).unwrap(), b"abcbytes");
        let number = other.number;
        drop(other);
        assert_eq!(spool.file.metadata().unwrap().blocks(), 0);
        assert_eq!(spool.slot(take()).number, number);
        assert_eq!(spool.slots().count, 2);
    }

    #[test]
    fn leftovers_of_a_killed_daemon_are_removed() {
        let folder = std::env::temp_dir().join(format!("spool-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{PREFIX}1")), "left").unwrap();
        std::fs::write(folder.join("other"), "kept").unwrap();
        drop(named(&folder).unwrap());
        remove_leftovers(&folder);
        let names = std::fs::read_dir(&folder).unwrap();
        let names: Vec<_> = names.map(|item| item.unwrap().file_name()).collect();
        assert_eq!(names, ["other"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
