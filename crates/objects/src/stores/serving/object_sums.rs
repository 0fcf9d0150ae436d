//! Comparison of objects that are read in blocks, by several lanes, with their checksums at the store.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use lighthaul_buckets::checksum;

/// Checksums of what was read of objects. All readers of a copy share it.
#[derive(Debug, Default)]
pub(crate) struct ObjectSums(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    objects: BTreeMap<Version, Runs>,
    /// Objects that were compared, the oldest first.
    compared: VecDeque<Version>,
}

/// Version of an object: checksum of its key, and mark of its attributes.
type Version = (u64, u64);

/// Object whose checksum the store knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summed<'a> {
    pub(crate) key: &'a str,
    /// Mark of its attributes.
    pub(crate) version: u64,
    pub(crate) size: u64,
    pub(crate) crc: u64,
}

/// Ends and checksums of what was read, by offset. Neighbors are joined.
#[derive(Debug, Default)]
struct Runs(BTreeMap<u64, (u64, u64)>);

impl ObjectSums {
    /// Adds bytes at `offset` of an object. Blocks that come again have the same offset. Returns false if all bytes were
    /// read, and have another checksum.
    pub(crate) fn add(&self, object: Summed<'_>, offset: u64, bytes: &[u8]) -> bool {
        let crc = checksum::of(bytes);
        if bytes.len() as u64 == object.size {
            return crc == object.crc;
        }
        let version = (checksum::of(object.key.as_bytes()), object.version);
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = sums.objects.entry(version).or_default();
        runs.add(offset, bytes.len() as u64, crc);
        let Some(whole) = runs.whole(object.size) else {
            return true;
        };
        let is_equal = whole == object.crc;
        if !sums.compared.contains(&version) {
            sums.compared.push_back(version);
        }
        if sums.compared.len() > COMPARED_MAX
            && let Some(oldest) = sums.compared.pop_front()
        {
            sums.objects.remove(&oldest);
        }
        is_equal
    }
}

impl Runs {
    fn add(&mut self, offset: u64, len: u64, crc: u64) {
        let (mut from, mut run) = (offset, (offset + len, crc));
        let before = self.0.range(..=offset).next_back();
        if let Some((start, (end, crc))) = before.map(|(start, run)| (*start, *run)) {
            if end > offset {
                // it came before
                return;
            }
            if end == offset {
                run.1 = checksum::combined(crc, run.1, len);
                from = start;
            }
        }
        if let Some((end, crc)) = self.0.remove(&run.0) {
            run = (end, checksum::combined(run.1, crc, end - run.0));
        }
        self.0.insert(from, run);
    }

    /// Returns the checksum of `size` bytes, once all were read.
    fn whole(&self, size: u64) -> Option<u64> {
        let (from, (end, crc)) = self.0.first_key_value()?;
        (*from == 0 && *end == size).then_some(*crc)
    }
}

/// Maximum number of objects that are remembered after they were compared. Lanes read the blocks between them twice.
const COMPARED_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &[u8] = b"some bytes of an object";

    fn object(key: &str, crc: u64) -> Summed<'_> {
        Summed {
            key,
            version: 1,
            size: BYTES.len() as u64,
            crc,
        }
    }

    fn block(nth: usize) -> (u64, &'static [u8]) {
        let (from, till) = (nth * 6, (nth * 6 + 6).min(BYTES.len()));
        (from as u64, &BYTES[from..till])
    }

    #[test]
    fn object_is_compared_when_its_last_block_was_read() {
        for (crc, expected) in [(checksum::of(BYTES), true), (7, false)] {
            let sums = ObjectSums::default();
            let add = |nth: usize| {
                let (offset, bytes) = block(nth);
                sums.add(object("key", crc), offset, bytes)
            };
            // in any order, and some again
            for nth in [2, 0, 2, 3] {
                assert!(add(nth));
            }
            assert_eq!(add(1), expected);
            assert_eq!(add(1), expected);
            assert_eq!(sums.add(object("other", crc), 0, BYTES), expected);
        }
    }

    #[test]
    fn objects_that_were_compared_need_little_memory() {
        let sums = ObjectSums::default();
        let crc = checksum::of(BYTES);
        for number in 0..2 * COMPARED_MAX {
            let key = number.to_string();
            for nth in 0..4 {
                let (offset, bytes) = block(nth);
                assert!(sums.add(object(&key, crc), offset, bytes));
            }
        }
        let sums = sums.0.into_inner().unwrap();
        assert_eq!(sums.objects.len(), COMPARED_MAX);
        assert!(sums.objects.values().all(|runs| runs.0.len() == 1));
    }
}
