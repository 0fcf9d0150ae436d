//! Manifest: the list of a transfer's entries, and its encoding.
//!
//! The list consists of parts of up to [`PAGE`] entries, which [`pack`] encodes (postcard) and
//! compresses (DEFLATE, RFC 1951). Messages refer to an [`Entry`] by its position in the list. A
//! directory precedes its contents, and an [`EntryKind::FolderEnd`] follows them. [`unpack`] trusts
//! no peer: it bounds the size, and rejects paths that could leave the target.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use lighthaul_fs::metadata::Extras;
use lighthaul_fs::version::Version;
use lighthaul_io::control::bounded::{self, List};
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;
use serde::{Deserialize, Serialize};

use crate::content_sum::ContentSum;
use crate::error::Fault;
use crate::object::Span;

/// Maximum number of octets of an unpacked part of the manifest.
const CHUNK_MAX: usize = 4 << 20;
/// Entries in one part of the manifest.
pub const PAGE: usize = 1000;
/// Maximum number of octets of a path.
pub const PATH_MAX: usize = 4096;
/// Maximum number of octets of a path in messages: the longest path of a directory, and a name in it.
pub const PATH_SHOWN_MAX: usize = 2 * PATH_MAX;
/// Maximum number of places in one request. Few command lines have more, since the system limits their length.
pub const PLACES_MAX: usize = 1 << 14;
/// Maximum number of ranges of data of a file with holes.
pub const PARTS_MAX: usize = 1 << 13;

/// Maximum number of entries that may be listed before the receiver has completed them.
pub const WINDOW: u64 = 1 << 17;

/// Entry of a transfer: a file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Path relative to the target, as octets, since names need not be UTF-8.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Modification time, seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the modification time.
    pub nanos: u32,
    /// Checksum of a file, if files are compared by their content.
    pub digest: Option<ContentSum>,
    /// Further metadata to preserve, besides permissions and modification time.
    pub extras: Option<Box<Extras>>,
    /// Ranges of data of a file with holes, in order.
    #[serde(deserialize_with = "bounded::option_list::<PARTS_MAX, _, _>")]
    pub data: Option<Vec<Span>>,
    /// Other names of a file or link.
    pub linked: Linked,
    /// Mark of the version of a file of a striped copy; see [`version_mark`].
    pub mark: Option<u64>,
}

/// Returns a mark of a version of a file. All hosts that see the file compute the same one, although each numbers its
/// devices differently. Another file with the same name, size and time has another mark.
pub fn version_mark(version: &Version) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&version.inode.1.to_be_bytes());
    hasher.update(&version.changed.to_be_bytes());
    hasher.update(&version.look.size.to_be_bytes());
    hasher.update(&version.look.seconds.to_be_bytes());
    hasher.update(&version.look.nanos.to_be_bytes());
    let mut mark = [0; 8];
    mark.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_be_bytes(mark)
}

/// Names of a file or link in the list, if hard links are preserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Linked {
    /// The file has no other name in the list.
    #[default]
    Alone,
    /// First name of a file with at most the given number of further names.
    First(u64),
    /// Further name of the file of the entry with the given number.
    To(u64),
}

/// Kinds of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// File of the given size in bytes.
    File(u64),
    /// Directory, whose contents follow.
    Folder,
    /// End of a directory: all its contents were listed.
    FolderEnd,
    /// Symbolic link to the given path.
    Link(#[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")] Vec<u8>),
}

impl Entry {
    /// Creates an entry for an item at `path` that only the target has.
    pub const fn bare(path: Vec<u8>) -> Self {
        Self {
            path,
            kind: EntryKind::Folder,
            mode: 0,
            seconds: 0,
            nanos: 0,
            digest: None,
            extras: None,
            data: None,
            linked: Linked::Alone,
            mark: None,
        }
    }

    /// Returns the size of a file in bytes, and zero for other entries.
    pub const fn size(&self) -> u64 {
        match self.kind {
            EntryKind::File(size) => size,
            EntryKind::Folder | EntryKind::FolderEnd | EntryKind::Link(_) => 0,
        }
    }

    /// Returns the ranges of data.
    pub fn data(&self) -> Vec<Span> {
        match &self.data {
            Some(data) => data.clone(),
            None if self.size() == 0 => Vec::new(),
            None => vec![(0, self.size())],
        }
    }

    /// Returns the bytes of data, without holes.
    pub fn data_len(&self) -> u64 {
        self.data().iter().map(|(from, till)| till - from).sum()
    }

    /// Returns the approximate size of the encoded entry, in octets.
    pub fn encoded_len(&self) -> usize {
        let attributes = self.extras.iter().flat_map(|extras| &extras.xattrs);
        let attributes: usize = attributes
            .map(|(name, value)| name.len() + value.len() + 8)
            .sum();
        let link = match &self.kind {
            EntryKind::Link(link) => link.len(),
            EntryKind::Folder | EntryKind::FolderEnd | EntryKind::File(_) => 0,
        };
        64 + self.path.len() + link + attributes + 20 * self.data.as_ref().map_or(0, Vec::len)
    }

    /// Returns true if the fields agree with each other.
    fn is_valid(&self) -> bool {
        let is_file = matches!(self.kind, EntryKind::File(_));
        let is_link = matches!(self.kind, EntryKind::Link(_));
        let mut at = 0;
        let data = self.data.iter().flatten();
        let in_order = data.into_iter().all(|(from, till)| {
            let follows = at <= *from && from < till;
            at = *till;
            follows
        });
        in_order
            && at <= self.size()
            && self
                .data
                .as_ref()
                .is_none_or(|data| is_file && data.len() <= PARTS_MAX)
            && (is_file || is_link || self.linked == Linked::Alone)
    }

    /// Returns the path in the type of the system.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// Returns true for the end of the copied directory itself, which has an empty path.
    pub fn is_top(&self) -> bool {
        self.path.is_empty() && self.kind == EntryKind::FolderEnd
    }

    /// Returns true if the path stays below the target: relative, without `..`, without empty
    /// names.
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

/// Returns `path` if it stays below the target, as in [`Entry::is_safe`].
pub fn safe(path: Vec<u8>) -> Option<Vec<u8>> {
    let entry = Entry::bare(path);
    entry.is_safe().then_some(entry.path)
}

/// Packs a part of the manifest for the peer.
pub fn pack(entries: &[Entry]) -> Result<Vec<u8>, Error> {
    let plain = postcard::to_allocvec(entries).map_err(|error| Fault::Encode(error.to_string()))?;
    let mut packed = Vec::new();
    let mut encoder = flate2::write::DeflateEncoder::new(&mut packed, flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &plain)
        .and_then(|()| encoder.finish().map(|_| ()))
        .map_err(|error| Fault::Encode(error.to_string()))?;
    Ok(packed)
}

/// Unpacks a page of entries that [`pack`] packed. Rejects unsafe paths, and parts that are too large or malformed.
pub fn unpack(packed: &[u8]) -> Result<Vec<Entry>, Error> {
    use std::io::Read;
    let invalid = || Error::from(PeerFault::Invalid("a malformed or unsafe manifest"));
    let mut plain = Vec::new();
    let limit = CHUNK_MAX as u64 + 1;
    flate2::read::DeflateDecoder::new(packed)
        .take(limit)
        .read_to_end(&mut plain)
        .map_err(|_| invalid())?;
    if plain.len() > CHUNK_MAX {
        return Err(invalid());
    }
    let entries = bounded::decode(|| postcard::from_bytes(&plain));
    let List::<PAGE, Entry>(entries) =
        entries.map_err(|why| why.map_or_else(invalid, |why| PeerFault::Oversized(why).into()))?;
    if entries
        .iter()
        .all(|entry| (entry.is_safe() || entry.is_top()) && entry.is_valid())
    {
        Ok(entries)
    } else {
        Err(invalid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, size: u64) -> Entry {
        let path = path.as_bytes().to_vec();
        Entry {
            path,
            kind: EntryKind::File(size),
            mode: 0o644,
            seconds: 1,
            nanos: 2,
            digest: None,
            extras: None,
            data: None,
            linked: Linked::Alone,
            mark: None,
        }
    }

    #[test]
    fn invalid_holes_and_links_are_rejected() {
        let good = Entry {
            data: Some(vec![(0, 5), (5, 6), (9, 10)]),
            linked: Linked::First(3),
            mark: None,
            ..file("a", 10)
        };
        assert_eq!(good.data_len(), 7);
        assert_eq!(
            unpack(&pack(std::slice::from_ref(&good)).unwrap()),
            Ok(vec![good.clone()])
        );
        let bad: [fn(&mut Entry); 6] = [
            |entry| entry.kind = EntryKind::File(9),
            |entry| entry.kind = EntryKind::Folder,
            |entry| entry.data = Some(vec![(3, 3)]),
            |entry| entry.data = Some(vec![(4, 5), (3, 4)]),
            |entry| entry.data = Some(vec![(4, 3)]),
            |entry| entry.data = Some((0..=PARTS_MAX as u64).map(|at| (at, at + 1)).collect()),
        ];
        for (nth, spoil) in bad.iter().enumerate() {
            let mut entry = Entry {
                kind: EntryKind::File(1 << 20),
                ..good.clone()
            };
            spoil(&mut entry);
            assert!(unpack(&pack(&[entry]).unwrap()).is_err(), "{nth}");
        }
    }

    #[test]
    fn packed_manifest_is_read_back() {
        let entries = vec![file("a", 3), file("b/c", 0)];
        assert_eq!(unpack(&pack(&entries).unwrap()), Ok(entries));
    }

    #[test]
    fn paths_that_lead_out_of_the_target_are_rejected() {
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
            assert!(
                unpack(&pack(&[file(path, 1)]).unwrap()).is_err(),
                "{path:?}"
            );
        }
        assert!(file("a/b..c/...", 1).is_safe());
    }

    #[test]
    fn manifest_that_unpacks_to_too_much_is_rejected() {
        let packed = pack(&vec![file(&"x".repeat(4000), 1); 4000]).unwrap();
        assert!(packed.len() < 200_000);
        assert!(unpack(&packed).is_err());
        // the number of entries is bounded, too
        let packed = pack(&vec![file("x", 1); PAGE + 1]).unwrap();
        let error = unpack(&packed).unwrap_err();
        assert!(error.text().contains("a list of 1001 items"), "{error}");
        assert!(unpack(&pack(&vec![file("x", 1); PAGE]).unwrap()).is_ok());
    }
}
