//! The list of a transfer's files, and how they lie behind one another in the object.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use lighthaul_base::Malformed;
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};

/// A file from this size on starts at a page of the object, so that it can be written in whole pages.
pub const LARGE: u64 = 1 << 20;
/// What large files are aligned to.
pub const PAGE: u64 = 4096;
/// The most octets that a chunk of the manifest has when it is unpacked.
const CHUNK_MAX: usize = 4 << 20;
/// The longest path that is taken.
const PATH_MAX: usize = 4096;

/// One file, folder or link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where it is, relative to the target; octets, since names need not be text.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Last change, seconds since 1970.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanos: u32,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file of so many bytes.
    File(u64),
    /// A folder.
    Folder,
    /// A symbolic link to this.
    Link(Vec<u8>),
}

impl Entry {
    /// Bytes that it has in the object.
    pub const fn size(&self) -> u64 {
        match self.kind {
            Kind::File(size) => size,
            Kind::Folder | Kind::Link(_) => 0,
        }
    }

    /// Its path as the system wants it.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// Whether the path stays where it is put: relative, no `..`, nothing empty.
    pub fn is_safe(&self) -> bool {
        let path = &self.path;
        path.len() <= PATH_MAX
            && !path.contains(&0)
            && !path.is_empty()
            && path
                .split(|octet| *octet == b'/')
                .all(|part| !part.is_empty() && part != b".")
            && self
                .path()
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
    }
}

/// Entries and where each begins in the object.
#[derive(Debug, Default)]
pub struct Manifest {
    entries: Vec<Entry>,
    starts: Vec<u64>,
    len: u64,
}

impl Manifest {
    /// Appends `entry`; the object grows by its bytes, and by a little to align a large file.
    pub fn push(&mut self, entry: Entry) -> Result<(), Malformed> {
        let size = entry.size();
        let start = if size >= LARGE {
            self.len.next_multiple_of(PAGE)
        } else {
            self.len
        };
        self.len = start
            .checked_add(size)
            .filter(|len| *len < 1 << 60)
            .ok_or(Malformed)?;
        self.starts.push(start);
        self.entries.push(entry);
        Ok(())
    }

    /// The entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Bytes of the object.
    pub const fn object_len(&self) -> u64 {
        self.len
    }

    /// Bytes of all files, without what aligns them.
    pub fn file_bytes(&self) -> u64 {
        self.entries.iter().map(Entry::size).sum()
    }

    /// Where entry `index` begins in the object.
    pub fn start(&self, index: usize) -> u64 {
        self.starts[index]
    }

    /// Calls `take(index, file offset, range)` for each file that the `len` bytes at `offset` touch,
    /// in order; what belongs to no file is left out.
    pub fn cut<E>(
        &self,
        offset: u64,
        len: usize,
        mut take: impl FnMut(usize, u64, std::ops::Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = offset + len as u64;
        let mut index = self
            .starts
            .partition_point(|start| *start <= offset)
            .saturating_sub(1);
        while index < self.entries.len() && self.starts[index] < end {
            let (start, size) = (self.starts[index], self.entries[index].size());
            let from = start.max(offset);
            let till = (start + size).min(end);
            if from < till {
                let range = (from - offset) as usize..(till - offset) as usize;
                take(index, from - start, range)?;
            }
            index += 1;
        }
        Ok(())
    }
}

/// Packs `entries` for the wire.
pub fn pack(entries: &[Entry]) -> Result<Vec<u8>, Error> {
    let plain = postcard::to_allocvec(entries)
        .map_err(|error| Error::new(Code::Protocol, format!("packing the manifest: {error}")))?;
    let mut packed = Vec::new();
    let mut encoder = flate2::write::DeflateEncoder::new(&mut packed, flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &plain)
        .and_then(|()| encoder.finish().map(|_| ()))
        .map_err(|error| Error::new(Code::Io, format!("packing the manifest: {error}")))?;
    Ok(packed)
}

/// Unpacks what [`pack`] made; refuses unsafe paths and chunks that are too large.
pub fn unpack(packed: &[u8]) -> Result<Vec<Entry>, Malformed> {
    use std::io::Read;
    let mut plain = Vec::new();
    let limit = CHUNK_MAX as u64 + 1;
    flate2::read::DeflateDecoder::new(packed)
        .take(limit)
        .read_to_end(&mut plain)
        .map_err(|_| Malformed)?;
    if plain.len() > CHUNK_MAX {
        return Err(Malformed);
    }
    let entries: Vec<Entry> = postcard::from_bytes(&plain).map_err(|_| Malformed)?;
    if entries.iter().all(Entry::is_safe) {
        Ok(entries)
    } else {
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(path: &str, size: u64) -> Entry {
        let path = path.as_bytes().to_vec();
        Entry {
            path,
            kind: Kind::File(size),
            mode: 0o644,
            seconds: 1,
            nanos: 2,
        }
    }

    #[test]
    fn a_manifest_survives_the_wire() {
        let entries = vec![file("a", 3), file("b/c", 0)];
        assert_eq!(unpack(&pack(&entries).unwrap()), Ok(entries));
    }

    #[test]
    fn paths_that_leave_the_target_are_refused() {
        for path in [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "a//b",
            "./a",
            "a/",
            "a\0b",
        ] {
            assert!(!file(path, 1).is_safe(), "{path:?}");
            assert_eq!(
                unpack(&pack(&[file(path, 1)]).unwrap()),
                Err(Malformed),
                "{path:?}"
            );
        }
        assert!(file("a/b..c/...", 1).is_safe());
    }

    #[test]
    fn a_bomb_does_not_go_off() {
        let packed = pack(&vec![file(&"x".repeat(4000), 1); 4000]).unwrap();
        assert!(packed.len() < 200_000);
        assert_eq!(unpack(&packed), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_octets_unpack_without_panic(octets: Vec<u8>) {
            let _ = unpack(&octets).is_ok();
        }

        #[test]
        fn every_byte_belongs_to_its_file(
            sizes in proptest::collection::vec(
                prop_oneof![0_u64..5, 0_u64..5000, Just(LARGE), Just(LARGE + 1)], 0..12),
            offset in 0_u64..3_000_000,
            len in 0_usize..200_000,
        ) {
            let mut manifest = Manifest::default();
            for (i, size) in sizes.iter().enumerate() {
                manifest.push(file(&i.to_string(), *size)).unwrap();
            }
            let mut cut = Vec::new();
            let done: Result<(), ()> = manifest.cut(offset, len, |index, at, range| {
                cut.push((index, at, range));
                Ok(())
            });
            prop_assert_eq!(done, Ok(()));
            // the dumb reference: ask every file
            let mut dumb = Vec::new();
            let end = offset + len as u64;
            for (i, size) in sizes.iter().enumerate() {
                let start = manifest.start(i);
                let (from, till) = (start.max(offset), (start + size).min(end));
                if from < till {
                    let range = (from - offset) as usize..(till - offset) as usize;
                    dumb.push((i, from - start, range));
                }
            }
            prop_assert_eq!(cut, dumb);
        }
    }
}
