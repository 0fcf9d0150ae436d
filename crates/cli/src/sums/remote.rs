//! Hashes of files on another host, computed on that host.

use lighthaul_files::hash::HashKind;
use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_files::sums::file_sums::FileSums;
use lighthaul_grammar::reach::RemoteArgs;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::files::run::fetch;

/// Part of the answer of another host.
pub(super) enum RemoteSums {
    /// Path of a file, with its hashes or the reason of a failure to read it.
    File(Vec<u8>, Result<FileSums, String>),
    /// Exit status of a directory that could not be read, and a sentence.
    Failed(u8, String),
}

/// Passes each file below `place` to `take`.
pub(super) fn hash(
    place: &Place,
    via: &RemoteArgs,
    kinds: Vec<HashKind>,
    mut take: impl FnMut(RemoteSums) -> Result<(), Error>,
) -> Result<(), Error> {
    let request = FileRequest::Hash {
        path: place.path().to_vec(),
        kinds,
    };
    fetch(place, via, &request, &mut |part| match part {
        FileReply::Hashed { files } => files
            .into_iter()
            .try_for_each(|file| take(RemoteSums::File(file.path.clone(), Ok(file.into())))),
        FileReply::Unreadable { path, why } => take(RemoteSums::File(path, Err(why))),
        FileReply::Failed { code, why } => take(RemoteSums::Failed(code, why)),
        FileReply::Listed { .. } | FileReply::Busy { .. } | FileReply::Done { .. } => Ok(()),
    })
}
