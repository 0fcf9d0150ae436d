//! File without a name for bytes whose parts are not complete. Its size is that of the parts that are open together.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};

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

impl Spool {
    /// Creates a file in `folder`. It is gone when this process ends.
    pub(crate) fn create(folder: &Path, slot_len: u64) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(Self {
            file: rustix::fs::open(folder, flags, mode)?.into(),
            slot_len,
            slots: Mutex::default(),
        })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot.
    pub(crate) fn take(&self) -> u64 {
        let mut slots = self.slots();
        let free = slots.free.pop();
        free.unwrap_or_else(|| {
            slots.count += 1;
            slots.count - 1
        })
    }

    /// Writes bytes at `offset` of a slot.
    pub(crate) fn write(&self, slot: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, slot * self.slot_len + offset)
    }

    /// Reads the first bytes of a slot.
    pub(crate) fn read(&self, slot: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, slot * self.slot_len)?;
        Ok(bytes)
    }

    /// Frees a slot, and the space of its bytes.
    pub(crate) fn free(&self, slot: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // without holes, the next part in this slot uses the space again
        fallocate(&self.file, flags, slot * self.slot_len, self.slot_len).ok();
        self.slots().free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn freed_slots_are_used_again_and_need_no_space() {
        let spool = Spool::create(&std::env::temp_dir(), 1 << 20).unwrap();
        let (one, other) = (spool.take(), spool.take());
        assert_ne!(one, other);
        spool.write(other, b"bytes", 3).unwrap();
        spool.write(other, b"abc", 0).unwrap();
        assert_eq!(spool.read(other, 8).unwrap(), b"abcbytes");
        spool.free(other);
        assert_eq!(spool.file.metadata().unwrap().blocks(), 0);
        assert_eq!(spool.take(), other);
        assert_eq!(spool.slots().count, 2);
    }
}
