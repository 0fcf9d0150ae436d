//! Directory in an object store, as a daemon serves it to copies and other requests.
//!
//! An object gets its name only after all of its bytes were compared with the source: [`ObjectUpload::publish`] follows
//! the comparison.
//!
//! ```text
//! ObjectTarget::folder --> ObjectFolder::begin --> ObjectUpload::write, in any order --> publish --> finish
//! ```

use std::fmt::{self, Debug, Formatter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_files::digest::Digest;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::object::Span;
use lighthaul_files::options::Options;
use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_session::error::Error;

/// Store that a daemon serves as a directory. Paths are relative to it.
pub trait ObjectTarget: Debug + Send + Sync {
    /// Returns true if `path` stands for a directory: the whole store, or a path with objects below it.
    fn is_folder(&self, path: &Path) -> Result<bool, Error>;

    /// Opens the directory `path` for a copy.
    fn folder(&self, path: &Path) -> Result<Box<dyn ObjectFolder>, Error>;

    /// Returns the entries of a copy from the store.
    fn sources(&self, paths: &[SourcePath], options: &Options) -> Result<SourceEntries, Error>;

    /// Executes a request about objects, and passes each part of the reply to `say`. Objects that fail are parts of the
    /// reply. Returns the number of objects that are done.
    fn execute(
        &self,
        request: &StoreRequest<'_>,
        say: &mut dyn FnMut(FileReply) -> Result<(), Error>,
    ) -> Result<u64, Error>;

    /// Ends all requests, and gives up all uploads that are open, within this time. Later requests fail.
    fn close(&self, limit: Duration);
}

/// Object or directory that a copy reads.
#[derive(Clone, Debug)]
pub struct SourcePath {
    /// Path in the store.
    pub path: PathBuf,
    /// True if it stands for the contents of a directory.
    pub is_contents: bool,
}

/// Request about objects of a store.
#[derive(Clone, Copy)]
pub struct StoreRequest<'a> {
    /// Request, with the paths that the client wrote.
    pub request: &'a FileRequest,
    /// The same paths, relative to the store.
    pub paths: &'a [PathBuf],
    /// Fails if the request was halted.
    pub check: &'a dyn Fn() -> Result<(), Error>,
}

impl Debug for StoreRequest<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut request = f.debug_struct("StoreRequest");
        request.field("request", &self.request);
        request.field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// Directory that a copy writes to.
pub trait ObjectFolder: Debug + Send + Sync {
    /// Returns the object at `path`, if there is one.
    fn look(&self, path: &Path) -> Result<Option<StoredObject>, Error>;

    /// Begins the upload of an object.
    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn ObjectUpload>, Error>;
}

/// Object in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Size in bytes.
    pub size: u64,
    /// Modification time of the source, or the time at which the store took the object.
    pub seconds: i64,
    /// Nanoseconds of this time.
    pub nanos: u32,
    /// True if it is the time of the source.
    pub has_source_time: bool,
    /// Version of the object.
    pub version: Option<String>,
}

/// Object that is written.
#[derive(Clone, Debug)]
pub struct NewObject<'a> {
    /// Path in the directory.
    pub path: &'a Path,
    /// Size in bytes.
    pub size: u64,
    /// Modification time of the source: seconds since 1970, and nanoseconds.
    pub time: (i64, u32),
    /// Condition under which the object gets its name.
    pub condition: WriteCondition,
    /// Leaves the check of the condition to the store, so that no other program can write between check and change.
    /// Otherwise a store without such checks is asked about the object just before.
    pub is_strict: bool,
}

/// Condition under which an object gets its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteCondition {
    /// None.
    Always,
    /// There is no object of this name.
    Absent,
    /// The object still has this version.
    Unchanged(String),
}

/// Upload of one object. If it is dropped before it is published, its parts may stay in the store for a time. Another upload
/// of the same version continues with them.
pub trait ObjectUpload: Debug + Send + Sync {
    /// Returns the ranges of the parts that the store has from an earlier copy, in order.
    fn held(&self) -> Vec<Span>;

    /// Compares a part that the store has with the digests of the source, those of all its ranges in order. Returns false if
    /// they differ. The bytes of the part are then written again.
    fn keep(&self, part: Span, source: &[(Span, Digest)]) -> bool;

    /// Takes bytes at `offset`, each byte once, in any order. Waits while the store is slower than the network.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Gives the object its name, after all of its bytes were taken and compared. Does not wait for the store.
    fn publish(&self);

    /// Waits until the object has its name.
    fn finish(&self) -> Result<Published, Error>;
}

/// Result of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The store has reported the checksum of the bytes that were taken.
    Verified,
    /// The store reports no checksums.
    Unverified,
    /// The condition does not hold any more, since another program has written or removed the object. It stays as it is.
    Overtaken,
}
