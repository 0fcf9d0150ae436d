//! Sparse files: their data ranges and holes.
//!
//! [`DataRanges`] finds the data of a source (`SEEK_DATA`, `SEEK_HOLE` of lseek(2)). [`write()`] and
//! [`punch`] keep whole pages of zeros out of a target. On file systems without holes, a source is
//! all data and a target gets zeros. Offsets and lengths are in bytes.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use lighthaul_io::store::block::PAGE;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, ftruncate, seek};
use rustix::io::Errno;

use crate::disk::OutputFile;

/// Data ranges of an open file, in ascending order.
///
/// Changes the file's position (lseek(2)), which no other code uses. On a file system without
/// holes, the whole file is data.
#[derive(Debug)]
pub struct DataRanges<'a> {
    file: BorrowedFd<'a>,
    at: u64,
    len: u64,
}

impl<'a> DataRanges<'a> {
    /// Lists the ranges of the first `len` bytes of `file`.
    pub fn of(file: &'a impl AsFd, len: u64) -> Self {
        let file = file.as_fd();
        Self { file, at: 0, len }
    }

    /// Collects at most `count_max` ranges. The last one may include holes.
    pub fn list(self, count_max: usize) -> io::Result<Vec<Range<u64>>> {
        let len = self.len;
        let mut parts = Vec::new();
        for part in self {
            let part = part?;
            if parts.len() + 1 >= count_max {
                parts.push(part.start..len);
                break;
            }
            parts.push(part);
        }
        Ok(parts)
    }

    fn step(&self) -> io::Result<Option<Range<u64>>> {
        if self.at >= self.len {
            return Ok(None);
        }
        let start = match seek(self.file, SeekFrom::Data(self.at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(self.at..self.len)),
            Err(error) => return Err(error.into()),
        };
        let end = match seek(self.file, SeekFrom::Hole(start)) {
            Ok(end) => end,
            // The file was truncated meanwhile.
            Err(Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let part = start.min(self.len)..end.min(self.len);
        Ok((!part.is_empty()).then_some(part))
    }
}

impl Iterator for DataRanges<'_> {
    type Item = io::Result<Range<u64>>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        self.at = match &step {
            Ok(Some(part)) => part.end,
            _ => self.len,
        };
        step.transpose()
    }
}

/// Content of a file's range before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormerContent {
    /// A hole: zeros need not be written.
    Hole,
    /// Possibly data: zeros are punched out.
    Bytes,
}

/// Sets a file's length without allocating space.
pub fn set_len(file: &OutputFile, len: u64) -> io::Result<()> {
    Ok(ftruncate(file, len)?)
}

/// Writes `bytes` at `offset`. Whole pages of zeros become holes.
pub fn write(
    file: &mut OutputFile,
    bytes: &[u8],
    offset: u64,
    before: FormerContent,
) -> io::Result<()> {
    for (range, is_hole) in runs(bytes, offset) {
        let at = offset + range.start as u64;
        match (is_hole, before) {
            (false, _) => file.write_at(&bytes[range], at)?,
            (true, FormerContent::Hole) => {}
            (true, FormerContent::Bytes) => punch(file, at..at + range.len() as u64)?,
        }
    }
    Ok(())
}

/// Makes a hole in a file. Writes zeros if the file system has no holes.
pub fn punch(file: &mut OutputFile, part: Range<u64>) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let len = part.end.saturating_sub(part.start);
    if len == 0 {
        return Ok(());
    }
    match fallocate(&*file, flags, part.start, len) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        other => return Ok(other?),
    }
    let mut at = part.start;
    while at < part.end {
        let len = (part.end - at).min(PAGE as u64);
        file.write_at(&ZEROS[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

/// Splits `bytes` at `offset` into runs of whole zero pages (true) and runs of other bytes (false).
pub fn runs(bytes: &[u8], offset: u64) -> impl Iterator<Item = (Range<usize>, bool)> {
    let first = (offset.next_multiple_of(PAGE as u64) - offset) as usize;
    let mut at = 0;
    let page = move |at: usize| {
        let end = if at < first { first } else { at + PAGE };
        let end = end.min(bytes.len());
        (end, end - at == PAGE && is_zero(&bytes[at..end]))
    };
    std::iter::from_fn(move || {
        if at == bytes.len() {
            return None;
        }
        let start = at;
        let (mut end, is_hole) = page(at);
        while end < bytes.len() {
            match page(end) {
                (next, same) if same == is_hole => end = next,
                _ => break,
            }
        }
        at = end;
        Some((start..end, is_hole))
    })
}

/// Reports whether all `bytes` are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(PAGE).all(|page| *page == ZEROS[..page.len()])
}

static ZEROS: [u8; PAGE] = [0; PAGE];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_cover_all_bytes_and_holes_are_whole_zero_pages(
            pages in prop::collection::vec(0_u8..3, 0..8),
            offset in 0_u64..3 * PAGE as u64,
            cut in 0..PAGE,
        ) {
            let mut bytes: Vec<u8> = pages.iter().flat_map(|page| vec![*page / 2; PAGE]).collect();
            bytes.truncate(bytes.len().saturating_sub(cut));
            let mut at = 0;
            let mut last = None;
            for (range, is_hole) in runs(&bytes, offset) {
                prop_assert_eq!(range.start, at);
                prop_assert!(!range.is_empty() && last != Some(is_hole));
                if is_hole {
                    prop_assert!(bytes[range.clone()].iter().all(|byte| *byte == 0));
                    prop_assert!((offset + at as u64).is_multiple_of(PAGE as u64));
                    prop_assert!(range.len().is_multiple_of(PAGE));
                } else {
                    // No aligned zero page remains in a data run.
                    let start = (offset + at as u64).next_multiple_of(PAGE as u64) - offset;
                    let mut pages = bytes[(start as usize).min(range.end)..range.end].chunks_exact(PAGE);
                    prop_assert!(pages.all(|page| page.iter().any(|byte| *byte != 0)));
                }
                at = range.end;
                last = Some(is_hole);
            }
            prop_assert_eq!(at, bytes.len());
        }
    }
}
