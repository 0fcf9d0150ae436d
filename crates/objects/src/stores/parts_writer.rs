//! Writer of consecutive bytes of an object to its temporary file, part by part.
//!
//! Bytes are written as they come from the network, while the processor's cache has them. A part counts when all of its
//! bytes are in the file: its checksum is then in the journal, for a later run.

use std::io;
use std::sync::Arc;

use lighthaul_buckets::checksum::Running;

use crate::stores::job::PART;
use crate::stores::partial::Partial;

/// Writer of a stretch of an object, which begins and ends where parts do.
#[derive(Debug)]
pub(crate) struct PartsWriter {
    partial: Arc<Partial>,
    /// Offset of the next byte.
    at: u64,
    /// Size of the object.
    size: u64,
    /// Checksum of the part that is being written.
    crc: Running,
    /// Numbers and checksums of the complete parts.
    done: Vec<(u64, u64)>,
}

impl PartsWriter {
    /// Creates a writer of an object of `size` bytes, which begins at `from`.
    pub(crate) fn new(partial: &Arc<Partial>, from: u64, size: u64) -> Self {
        Self {
            partial: Arc::clone(partial),
            at: from,
            size,
            crc: Running::new(),
            done: Vec::new(),
        }
    }

    /// Writes the next bytes.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let number = self.at / PART;
            let (_, till) = range(number, self.size);
            let len = usize::try_from(till - self.at).unwrap_or(usize::MAX);
            if len == 0 {
                return Err(io::Error::other("the object has more bytes than its size"));
            }
            let (now, rest) = bytes.split_at(len.min(bytes.len()));
            self.crc.update(now);
            self.partial.write(now, self.at)?;
            self.at += now.len() as u64;
            if self.at == till {
                let crc = std::mem::replace(&mut self.crc, Running::new()).finish();
                self.partial.note(number, crc)?;
                self.done.push((number, crc));
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Returns the numbers and checksums of the complete parts.
    pub(crate) fn finish(self) -> Vec<(u64, u64)> {
        self.done
    }
}

/// Returns the range of the part with this number of an object of `size` bytes.
pub(crate) fn range(number: u64, size: u64) -> (u64, u64) {
    let from = number.saturating_mul(PART).min(size);
    (from, (from + PART).min(size))
}

/// Returns the stretches of an object of `size` bytes that are fetched, each in one request: parts that are not held.
/// Large objects have stretches of several parts, since each request takes time.
pub(crate) fn stretches(size: u64, is_held: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
    let parts = size.div_ceil(PART);
    let most = (parts / STRETCHES_MIN).clamp(1, PARTS_MAX) * PART;
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for number in (0..parts).filter(|number| !is_held(*number)) {
        let (from, till) = range(number, size);
        match stretches.last_mut() {
            Some(last) if last.1 == from && till - last.0 <= most => last.1 = till,
            _ => stretches.push((from, till)),
        }
    }
    stretches
}

/// Number of stretches that an object has at least before they get longer, so that many are fetched at a time.
const STRETCHES_MIN: u64 = 16;
/// Maximum number of parts of a stretch.
const PARTS_MAX: u64 = 8;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lighthaul_fs::disk::Root;

    use super::*;
    use lighthaul_buckets::checksum;

    #[test]
    fn bytes_in_any_pieces_become_parts_with_their_checksums() {
        let folder = std::env::temp_dir().join(format!("objects-parts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut root = Root::open(&folder).unwrap();
        let size = PART + 1000;
        let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let partial = Partial::open(&mut root, Path::new("x"), Some("one")).unwrap();
        let partial = Arc::new(partial);
        let mut writer = PartsWriter::new(&partial, 0, size);
        let mut rest = bytes.as_slice();
        for len in [1, 4095, 3 << 20, 6 << 20].into_iter().cycle() {
            let (now, later) = rest.split_at(len.min(rest.len()));
            writer.write(now).unwrap();
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        assert!(writer.write(b"more").is_err());
        let (one, other) = bytes.split_at(PART as usize);
        let expected = vec![(0, checksum::of(one)), (1, checksum::of(other))];
        assert_eq!(writer.finish(), expected);
        for (number, crc) in expected {
            assert!(partial.has(range(number, size), crc).unwrap());
        }
        drop(partial);
        let again = Partial::open(&mut root, Path::new("x"), Some("one")).unwrap();
        assert_eq!(again.held.len(), 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn part_whose_bytes_are_not_all_there_is_not_in_the_journal() {
        let folder = std::env::temp_dir().join(format!("objects-cut-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut root = Root::open(&folder).unwrap();
        let partial = Partial::open(&mut root, Path::new("x"), Some("one")).unwrap();
        let partial = Arc::new(partial);
        let mut writer = PartsWriter::new(&partial, PART, 3 * PART);
        writer.write(&vec![7; PART as usize + 9]).unwrap();
        let done = writer.finish();
        drop(partial);
        let again = Partial::open(&mut root, Path::new("x"), Some("one")).unwrap();
        assert_eq!(again.held.into_iter().collect::<Vec<_>>(), done);
        assert_eq!(done.len(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn stretches_have_each_missing_part_once() {
        for parts in [1, 2, 7, 16, 31, 32, 128, 1000] {
            for held in [0, 1, 2, 3, 7] {
                let size = parts * PART - 5;
                let is_held = |number| held > 0 && number % held == 0;
                let mut missing = Vec::new();
                for (from, till) in stretches(size, is_held) {
                    assert!(till - from <= PARTS_MAX * PART && from % PART == 0);
                    missing.extend((from / PART)..till.div_ceil(PART));
                }
                let expected: Vec<u64> = (0..parts).filter(|number| !is_held(*number)).collect();
                assert_eq!(missing, expected, "{parts} {held}");
            }
        }
        assert_eq!(stretches(8 * PART, |_| false).len(), 8);
        assert_eq!(stretches(128 * PART, |_| false).len(), 16);
    }
}
