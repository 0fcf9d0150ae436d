//! Thread that computes hashes of the files at the target for the user.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use lighthaul_copy::message::Message;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::hash::{FileHashes, HashKind, RunningHashes};
use lighthaul_fs::disk::Root;
use lighthaul_session::error::Error;

use super::transfer::Transfer;

/// Bytes of one read.
const PIECE: usize = 1 << 20;
/// Interval at which the thread checks whether more files can come.
const LOOK: Duration = Duration::from_millis(10);

/// Worker that hashes files in place.
pub(super) struct Hasher<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) root: Root,
    pub(super) target: PathBuf,
    pub(super) kinds: Vec<HashKind>,
}

impl Hasher<'_> {
    /// Hashes and reports all `files` until all entries are settled.
    pub(crate) fn run(&mut self, files: &Receiver<PathBuf>) -> Result<(), Error> {
        loop {
            let is_over = self.transfer.table.is_settled();
            let patience = if is_over { Duration::ZERO } else { LOOK };
            match files.recv_timeout(patience) {
                Ok(path) => {
                    let _step = self.transfer.threads.work.begin();
                    self.file(&path)?;
                }
                Err(RecvTimeoutError::Timeout) if is_over => return Ok(()),
                Err(RecvTimeoutError::Timeout) => self.transfer.threads.check()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn file(&mut self, path: &Path) -> Result<(), Error> {
        match hashes_of(&self.transfer.threads, &mut self.root, path, &self.kinds)? {
            Ok((size, hashes)) => {
                let hashed = FileHashes {
                    path: path.as_os_str().as_encoded_bytes().to_vec(),
                    size,
                    hashes,
                };
                self.transfer
                    .monitor
                    .show(CopyEvent::Hashed(hashed.clone()));
                self.transfer.session.say(&Message::Hashed(hashed))
            }
            Err(error) => {
                let place = self.target.join(path);
                let place = place.display();
                self.transfer
                    .monitor
                    .warn(format!("cannot compute the hashes of {place}: {error}"));
                Ok(())
            }
        }
    }
}

/// Returns the size and the hashes of the file at `path`, or the error of reading it. Fails only if the copy has
/// failed.
#[expect(
    clippy::type_complexity,
    reason = "errors of the file and of the copy differ"
)]
pub(crate) fn hashes_of(
    threads: &ThreadGroup,
    root: &mut Root,
    path: &Path,
    kinds: &[HashKind],
) -> Result<io::Result<(u64, Vec<(HashKind, String)>)>, Error> {
    let mut hashes = RunningHashes::new(kinds);
    let mut buffer = vec![0; PIECE];
    let file = match root.read(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    let before = file.version();
    let mut at = 0;
    loop {
        threads.check()?;
        match file.read_at(&mut buffer, at) {
            Ok(0) => break,
            Ok(count) => {
                hashes.update(&buffer[..count]);
                at += count as u64;
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(match (before, file.version()) {
        (Ok(before), Ok(after)) if before == after => Ok((at, hashes.finish())),
        _ => Err(io::Error::other("the file changed while it was read")),
    })
}
