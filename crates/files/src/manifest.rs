//! The list of a transfer's files, and how it is packed for the wire.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use lighthaul_io::control::bounded::{self, List};
use lighthaul_io::fs::metadata::Extras;
use lighthaul_session::error::{Code, Error};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::object::Span;

/// The most octets that a chunk of the manifest has when it is unpacked.
const CHUNK_MAX: usize = 4 << 20;
/// Entries in a page of the list.
pub const PAGE: usize = 1000;
/// The longest path that is taken.
pub const PATH_MAX: usize = 4096;
/// The longest path that is told of: a folder whose own path is just short enough, and a name in it.
pub const PATH_SHOWN_MAX: usize = 2 * PATH_MAX;
/// The most places in one request: a command line that names more is longer than the system takes, or close to it.
pub const PLACES_MAX: usize = 1 << 14;
/// The most parts that a file with holes is told in.
pub const PARTS_MAX: usize = 1 << 13;

/// Entries that may be listed and not yet in place, or failed, on the other side.
pub const WINDOW: u64 = 1 << 17;

/// One file, folder or link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where it is, relative to the target; octets, since names need not be text.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Last change, seconds since 1970.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanos: u32,
    /// The digest of a file, if both sides compare by that.
    pub digest: Option<Digest>,
    /// What else is to be kept of it, if that was asked for; neither permissions nor the last change.
    pub extras: Option<Box<Extras>>,
    /// Where a file has data, in order, if it has holes.
    #[serde(deserialize_with = "bounded::option_list::<PARTS_MAX, _, _>")]
    pub data: Option<Vec<Span>>,
    /// Which other names a file or link has.
    pub linked: Linked,
}

/// Which names a file or link has in the list, as far as names of one file are to stay that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Linked {
    /// The one that it has here.
    #[default]
    Alone,
    /// This is the first; so many more may follow.
    First(u64),
    /// Also that of the entry of this number.
    To(u64),
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file of so many bytes.
    File(u64),
    /// A folder; what is in it follows.
    Folder,
    /// The end of a folder: everything in it has been listed.
    Leave,
    /// A symbolic link to this.
    Link(#[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")] Vec<u8>),
}

impl Entry {
    /// Something at `path` that only the target has.
    pub const fn gone(path: Vec<u8>) -> Self {
        Self {
            path,
            kind: Kind::Folder,
            mode: 0,
            seconds: 0,
            nanos: 0,
            digest: None,
            extras: None,
            data: None,
            linked: Linked::Alone,
        }
    }

    /// Bytes that it has.
    pub const fn size(&self) -> u64 {
        match self.kind {
            Kind::File(size) => size,
            Kind::Folder | Kind::Leave | Kind::Link(_) => 0,
        }
    }

    /// Where it has data.
    pub fn data(&self) -> Vec<Span> {
        match &self.data {
            Some(data) => data.clone(),
            None if self.size() == 0 => Vec::new(),
            None => vec![(0, self.size())],
        }
    }

    /// Bytes of data that it has, which holes are not.
    pub fn data_len(&self) -> u64 {
        self.data().iter().map(|(from, till)| till - from).sum()
    }

    /// About how many octets tell it.
    pub fn weight(&self) -> usize {
        let attributes = self.extras.iter().flat_map(|extras| &extras.xattrs);
        let attributes: usize = attributes
            .map(|(name, value)| name.len() + value.len() + 8)
            .sum();
        let link = match &self.kind {
            Kind::Link(link) => link.len(),
            Kind::Folder | Kind::Leave | Kind::File(_) => 0,
        };
        64 + self.path.len() + link + attributes + 20 * self.data.as_ref().map_or(0, Vec::len)
    }

    /// Whether it says nothing that cannot be.
    fn is_sound(&self) -> bool {
        let is_file = matches!(self.kind, Kind::File(_));
        let is_link = matches!(self.kind, Kind::Link(_));
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

    /// Its path as the system wants it.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// Whether it ends the folder whose contents are copied, which has no name among them.
    pub fn is_top(&self) -> bool {
        self.path.is_empty() && self.kind == Kind::Leave
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

/// A path of octets that stays where it is put, as [`Entry::is_safe`] has it.
pub fn safe(path: Vec<u8>) -> Option<Vec<u8>> {
    let entry = Entry::gone(path);
    entry.is_safe().then_some(entry.path)
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

/// Unpacks what [`pack`] made; refuses unsafe paths, and chunks that are too large or make no sense.
pub fn unpack(packed: &[u8]) -> Result<Vec<Entry>, Error> {
    use std::io::Read;
    let nonsense = || {
        let text = "the peer's manifest makes no sense or is unsafe";
        Error::new(Code::Protocol, text)
    };
    let mut plain = Vec::new();
    let limit = CHUNK_MAX as u64 + 1;
    flate2::read::DeflateDecoder::new(packed)
        .take(limit)
        .read_to_end(&mut plain)
        .map_err(|_| nonsense())?;
    if plain.len() > CHUNK_MAX {
        return Err(nonsense());
    }
    let entries = bounded::decode(|| postcard::from_bytes(&plain));
    let List::<PAGE, Entry>(entries) = entries.map_err(|why| {
        why.map_or_else(nonsense, |why| {
            Error::new(Code::Protocol, format!("the peer's manifest has {why}"))
        })
    })?;
    if entries
        .iter()
        .all(|entry| (entry.is_safe() || entry.is_top()) && entry.is_sound())
    {
        Ok(entries)
    } else {
        Err(nonsense())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, size: u64) -> Entry {
        let path = path.as_bytes().to_vec();
        Entry {
            path,
            kind: Kind::File(size),
            mode: 0o644,
            seconds: 1,
            nanos: 2,
            digest: None,
            extras: None,
            data: None,
            linked: Linked::Alone,
        }
    }

    #[test]
    fn holes_and_names_that_cannot_be_are_refused() {
        let good = Entry {
            data: Some(vec![(0, 5), (5, 6), (9, 10)]),
            linked: Linked::First(3),
            ..file("a", 10)
        };
        assert_eq!(good.data_len(), 7);
        assert_eq!(
            unpack(&pack(std::slice::from_ref(&good)).unwrap()),
            Ok(vec![good.clone()])
        );
        let bad: [fn(&mut Entry); 6] = [
            |entry| entry.kind = Kind::File(9),
            |entry| entry.kind = Kind::Folder,
            |entry| entry.data = Some(vec![(3, 3)]),
            |entry| entry.data = Some(vec![(4, 5), (3, 4)]),
            |entry| entry.data = Some(vec![(4, 3)]),
            |entry| entry.data = Some((0..=PARTS_MAX as u64).map(|at| (at, at + 1)).collect()),
        ];
        for (nth, spoil) in bad.iter().enumerate() {
            let mut entry = Entry {
                kind: Kind::File(1 << 20),
                ..good.clone()
            };
            spoil(&mut entry);
            assert!(unpack(&pack(&[entry]).unwrap()).is_err(), "{nth}");
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
            assert!(
                unpack(&pack(&[file(path, 1)]).unwrap()).is_err(),
                "{path:?}"
            );
        }
        assert!(file("a/b..c/...", 1).is_safe());
    }

    #[test]
    fn a_bomb_does_not_go_off() {
        let packed = pack(&vec![file(&"x".repeat(4000), 1); 4000]).unwrap();
        assert!(packed.len() < 200_000);
        assert!(unpack(&packed).is_err());
        // nor does one of many small entries
        let packed = pack(&vec![file("x", 1); PAGE + 1]).unwrap();
        let error = unpack(&packed).unwrap_err();
        assert!(error.text.contains("a list of 1001 items"), "{error}");
        assert!(unpack(&pack(&vec![file("x", 1); PAGE]).unwrap()).is_ok());
    }
}
