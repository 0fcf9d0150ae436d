//! Requests about remote files, and their answers.
//!
//! ```text
//! client                                                              server
//!   | Open, Read, Read ..., Close, Create, Write ..., Commit, Stat ... ---> |
//!   | <--- Data ..., Listed ..., Hashed, and Done or Failed of each request |
//! ```
//!
//! They travel on stream [`STREAM`] of each connection of the session. Stream 0 has only [`Message::End`]. The client
//! numbers its requests, and a handle is the number of the request that opened it. Requests of one connection are
//! executed in order, except for [`Message::Hash`], [`Message::Copy`], [`Message::Commit`] and [`Message::List`], which
//! may take longer. A request on a handle that could not be opened fails like the opening, so no request has to wait for
//! an earlier answer. The bytes of [`Message::Data`] and [`Message::Write`] are the body of the frame.

use lighthaul_files::hash::{FileHashes, HashKind};
use lighthaul_files::manifest::PATH_MAX;
use lighthaul_files::request::FileInfo;
use lighthaul_fs::version::{Look, Version};
use lighthaul_io::control::bounded;
use lighthaul_session::peer_text;
use lighthaul_session::topic::{ITEMS_MAX, Topic};
use serde::{Deserialize, Serialize};

use crate::failure::FailureKind;

/// Stream of the requests and answers on each connection.
pub const STREAM: u16 = 3;
/// Maximum number of bytes of one [`Message::Data`] or [`Message::Write`].
pub const PIECE_MAX: usize = 128 << 10;
/// Maximum number of hash functions of one request.
const KINDS_MAX: usize = 32;

/// Offset, and the BLAKE3 hash of the bytes from there to the end of the file.
pub type RangeDigest = (u64, [u8; 32]);

/// Request of a client for the whole session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// True if the client opens further connections for data.
    pub joins: bool,
    /// True if files may be changed. Otherwise requests for changes fail.
    pub changes: bool,
}

/// Message about remote files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Opens a file for reading.
    Open {
        /// Number of the request, and the handle.
        request: u64,
        /// Path of the file. A symbolic link is followed.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Version that the file must have, if the client knows one.
        expected: Option<FileVersion>,
    },
    /// Reads a range. The answer is shorter where the file ends.
    Read {
        /// Number of the request.
        request: u64,
        /// Handle of a file that is open for reading.
        handle: u64,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// Creates a file under a temporary name. [`Message::Commit`] gives it its name.
    Create {
        /// Number of the request, and the handle.
        request: u64,
        /// Path of the file.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Permission bits. Without them, a replaced file passes on its own.
        mode: Option<u32>,
        /// True if the path must not exist.
        is_new: bool,
    },
    /// Opens an existing file to write at its end.
    Append {
        /// Number of the request, and the handle.
        request: u64,
        /// Path of the file.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Size that the file must have, if the client knows it.
        size: Option<u64>,
    },
    /// Writes the body of the frame. A file that has its name can only be written at its end.
    Write {
        /// Number of the request.
        request: u64,
        /// Handle of a file that is open for writing.
        handle: u64,
        /// Offset of the first byte.
        offset: u64,
    },
    /// Changes the size of a file that has no name yet.
    Truncate {
        /// Number of the request.
        request: u64,
        /// Handle of a file that is open for writing.
        handle: u64,
        /// New size in bytes.
        size: u64,
    },
    /// Makes all writes durable, and gives a created file its name.
    Commit {
        /// Number of the request.
        request: u64,
        /// Handle of a file that is open for writing.
        handle: u64,
        /// Size that the file must have.
        size: u64,
        /// Offset, and the BLAKE3 hash that the bytes from there to the end must have.
        digest: Option<RangeDigest>,
    },
    /// Closes a handle. A created file without a name is removed. There is no answer.
    Close {
        /// Handle.
        handle: u64,
    },
    /// Describes the item at a path.
    Stat {
        /// Number of the request.
        request: u64,
        /// Path of the item.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// True if a symbolic link stands for its target.
        follow: bool,
    },
    /// Lists a directory.
    List {
        /// Number of the request.
        request: u64,
        /// Path of the directory.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
    },
    /// Renames an item.
    Rename {
        /// Number of the request.
        request: u64,
        /// Path of the item.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        from: Vec<u8>,
        /// New path.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        to: Vec<u8>,
        /// True if an item at the new path is replaced.
        replace: bool,
    },
    /// Copies a file on the server.
    Copy {
        /// Number of the request.
        request: u64,
        /// Path of the file.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        from: Vec<u8>,
        /// Path of the copy.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        to: Vec<u8>,
        /// True if a file at the path of the copy is replaced.
        replace: bool,
    },
    /// Removes a file, a link or an empty directory.
    Remove {
        /// Number of the request.
        request: u64,
        /// Path of the item.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// True for a directory.
        is_folder: bool,
    },
    /// Creates a directory.
    MakeFolder {
        /// Number of the request.
        request: u64,
        /// Path of the directory.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
    },
    /// Creates a symbolic link.
    MakeLink {
        /// Number of the request.
        request: u64,
        /// Path of the link.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Target of the link.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        target: Vec<u8>,
    },
    /// Sets attributes of a file or directory.
    Set {
        /// Number of the request.
        request: u64,
        /// Path of the item.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Permission bits to set, if any.
        mode: Option<u32>,
        /// Modification time to set, if any: seconds since 1970 and nanoseconds.
        time: Option<(i64, u32)>,
    },
    /// Computes hashes of a file.
    Hash {
        /// Number of the request.
        request: u64,
        /// Path of the file.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Hash functions.
        #[serde(deserialize_with = "bounded::list::<KINDS_MAX, _, _>")]
        kinds: Vec<HashKind>,
    },
    /// Next bytes of a range, in the body of the frame.
    Data {
        /// Number of the request.
        request: u64,
    },
    /// Items of a directory, or the item of [`Message::Stat`].
    Listed {
        /// Number of the request.
        request: u64,
        /// Items.
        #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
        items: Vec<FileInfo>,
    },
    /// Hashes of a file.
    Hashed {
        /// Number of the request.
        request: u64,
        /// Hashes.
        hashes: FileHashes,
    },
    /// End of the answer to a request that succeeded.
    Done {
        /// Number of the request.
        request: u64,
        /// Version of the file after the request, if the request concerns a file.
        version: Option<FileVersion>,
    },
    /// End of the answer to a request that failed.
    Failed {
        /// Number of the request.
        request: u64,
        /// Kind of the failure.
        kind: FailureKind,
        /// Exit status.
        code: u8,
        /// Reason of the failure.
        #[serde(deserialize_with = "peer_text::read")]
        why: String,
    },
    /// End of the session, on stream 0.
    End,
}

impl Topic for Message {
    const NUMBER: u8 = 8;
    type Request = Request;
}

/// Version of a file; any change of the file changes the version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Last status change, nanoseconds since 1970.
    pub changed: i64,
    /// Size in bytes.
    pub size: u64,
    /// Modification time, seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the modification time.
    pub nanos: u32,
}

impl From<Version> for FileVersion {
    fn from(version: Version) -> Self {
        let Version {
            inode: (device, inode),
            changed,
            look:
                Look {
                    size,
                    seconds,
                    nanos,
                },
        } = version;
        Self {
            device,
            inode,
            changed,
            size,
            seconds,
            nanos,
        }
    }
}

impl Message {
    /// Returns the number of the answered request, if this message is an answer.
    pub const fn answers(&self) -> Option<u64> {
        match self {
            Self::Data { request }
            | Self::Listed { request, .. }
            | Self::Hashed { request, .. }
            | Self::Done { request, .. }
            | Self::Failed { request, .. } => Some(*request),
            Self::Open { .. }
            | Self::Read { .. }
            | Self::Create { .. }
            | Self::Append { .. }
            | Self::Write { .. }
            | Self::Truncate { .. }
            | Self::Commit { .. }
            | Self::Close { .. }
            | Self::Stat { .. }
            | Self::List { .. }
            | Self::Rename { .. }
            | Self::Copy { .. }
            | Self::Remove { .. }
            | Self::MakeFolder { .. }
            | Self::MakeLink { .. }
            | Self::Set { .. }
            | Self::Hash { .. }
            | Self::End => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_paths_are_refused() {
        let stat = |len| Message::Stat {
            request: 1,
            path: vec![b'a'; len],
            follow: true,
        };
        assert!(Message::decode(&stat(PATH_MAX).encode()).is_ok());
        let error = Message::decode(&stat(PATH_MAX + 1).encode()).unwrap_err();
        assert!(error.text().contains("4097"), "{error}");
    }

    #[test]
    fn head_of_data_fits_before_a_body() {
        let head = Message::Data { request: u64::MAX }.encode();
        assert!(head.len() < 255);
        let head = Message::Write {
            request: u64::MAX,
            handle: u64::MAX,
            offset: u64::MAX,
        };
        assert!(head.encode().len() < 255);
    }

    proptest! {
        #[test]
        fn decoded_messages_encode_to_the_same_value(
            octets in proptest::collection::vec(any::<u8>(), 0..400)
        ) {
            let octets = [vec![Message::NUMBER], octets].concat();
            if let Ok(message) = Message::decode(&octets) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }
    }
}
