//! Requests of a peer about files, and the replies.
//!
//! ```text
//! client                                                    server
//!   | FileRequest --------------------------------------------> |
//!   | <----- Listed, Hashed, Unreadable, Failed, Busy ... Done |
//! ```
//!
//! A [`FileReply::Failed`] is about one item, and the reply continues after it. Copies have
//! messages of their own.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::slice;

use lighthaul_fs::meta::Meta;
use lighthaul_io::control::bounded;
use lighthaul_session::peer_text;
use lighthaul_session::topic::{ITEMS_MAX, Topic};
use serde::{Deserialize, Serialize};

use crate::hash::{FileHashes, HASHES_MAX, HashKind};
use crate::manifest::{PATH_MAX, PLACES_MAX};

/// Request about files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileRequest {
    /// Lists the contents of a directory, or a file itself.
    List {
        /// Path of the directory.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Includes names that begin with a dot.
        hidden: bool,
        /// Lists the contents of subdirectories, too, with their paths below the directory.
        recursive: bool,
    },
    /// Describes the items at the given paths, without following links.
    Stat {
        /// Paths.
        #[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")]
        paths: Vec<Vec<u8>>,
    },
    /// Removes the items at the given paths.
    Remove {
        /// Paths.
        #[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")]
        paths: Vec<Vec<u8>>,
        /// Removes directories with their contents.
        recursive: bool,
    },
    /// Creates directories.
    Make {
        /// Paths.
        #[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")]
        paths: Vec<Vec<u8>>,
        /// Creates the directories above, too, and accepts directories that exist.
        parents: bool,
    },
    /// Reads all files of a directory, and returns their hashes.
    Hash {
        /// Path of the directory.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Hash functions.
        #[serde(deserialize_with = "bounded::list::<HASHES_MAX, _, _>")]
        kinds: Vec<HashKind>,
    },
}

/// Part of a reply. [`FileReply::Done`] is the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileReply {
    /// Items that were found.
    Listed {
        /// Items.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        items: Vec<FileInfo>,
    },
    /// Hashes of files, with paths below the directory.
    Hashed {
        /// Files.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        files: Vec<FileHashes>,
    },
    /// File below the directory that cannot be read.
    Unreadable {
        /// Path below the directory.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Reason of the failure.
        #[serde(deserialize_with = "peer_text::read")]
        why: String,
    },
    /// Work continues.
    Busy {
        /// Number of items that are done.
        done: u64,
    },
    /// An item failed.
    Failed {
        /// Exit status.
        code: u8,
        /// Reason of the failure.
        #[serde(deserialize_with = "peer_text::read")]
        why: String,
    },
    /// End of the reply.
    Done {
        /// Number of items that were done.
        done: u64,
    },
}

impl Topic for FileReply {
    const NUMBER: u8 = 2;
    type Request = FileRequest;
}

/// Item of the file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Name in the listed directory, or the path of the request.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Kind of the item.
    pub kind: FileKind,
    /// Size of a file in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// User ID of the owner.
    pub user: u32,
    /// Group ID.
    pub group: u32,
    /// Modification time, seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the modification time.
    pub nanos: u32,
}

/// Kinds of items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Folder,
    /// A symbolic link, and its target.
    Link(#[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")] Vec<u8>),
    /// A device, a socket or a FIFO.
    Other,
}

impl FileInfo {
    /// Returns the description of an item with the attributes `meta`, and the target if it is a symbolic link.
    pub fn of(meta: &Meta, target: Option<OsString>, path: &[u8]) -> Self {
        let kind = if meta.kind.is_file() {
            FileKind::File
        } else if meta.kind.is_dir() {
            FileKind::Folder
        } else if let Some(target) = target {
            FileKind::Link(target.into_vec())
        } else {
            FileKind::Other
        };
        Self {
            path: path.to_vec(),
            kind,
            size: meta.size,
            mode: meta.mode,
            user: meta.user,
            group: meta.group,
            seconds: meta.seconds,
            nanos: meta.nanos,
        }
    }
}

impl FileRequest {
    /// Returns the paths of the request.
    pub fn paths(&self) -> &[Vec<u8>] {
        match self {
            Self::List { path, .. } | Self::Hash { path, .. } => slice::from_ref(path),
            Self::Stat { paths } | Self::Remove { paths, .. } | Self::Make { paths, .. } => paths,
        }
    }

    /// Returns true if the request changes files.
    pub const fn changes(&self) -> bool {
        matches!(self, Self::Remove { .. } | Self::Make { .. })
    }
}
