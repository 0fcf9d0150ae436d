//! Hashes that others want to know, of the files as they are at the target, in a thread of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use lighthaul_files::hash::{Hashed, Hashes, Kind};
use lighthaul_io::fs::disk::Root;
use lighthaul_session::error::Error;

use super::transfer::Transfer;
use crate::crew::Crew;
use crate::message::Message;
use crate::watch::Sight;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;
/// How often it is checked whether more files can come.
const LOOK: Duration = Duration::from_millis(10);

/// Takes hashes of files that are in place.
pub(super) struct Hasher<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) root: Root,
    pub(super) target: PathBuf,
    pub(super) kinds: Vec<Kind>,
}

impl Hasher<'_> {
    /// Takes and tells the hashes of all `files` until everything is in place.
    pub(crate) fn run(&mut self, files: &Receiver<PathBuf>) -> Result<(), Error> {
        loop {
            let is_over = self.transfer.ledger.is_settled();
            let patience = if is_over { Duration::ZERO } else { LOOK };
            match files.recv_timeout(patience) {
                Ok(path) => {
                    let _step = self.transfer.crew.work.begin();
                    self.file(&path)?;
                }
                Err(RecvTimeoutError::Timeout) if is_over => return Ok(()),
                Err(RecvTimeoutError::Timeout) => self.transfer.crew.check()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn file(&mut self, path: &Path) -> Result<(), Error> {
        match hashes_of(&self.transfer.crew, &mut self.root, path, &self.kinds)? {
            Ok((size, hashes)) => {
                let hashed = Hashed {
                    path: path.as_os_str().as_encoded_bytes().to_vec(),
                    size,
                    hashes,
                };
                self.transfer.board.show(Sight::Hashed(hashed.clone()));
                self.transfer.session.say(&Message::Hashed(hashed))
            }
            Err(error) => {
                let place = self.target.join(path);
                let place = place.display();
                self.transfer
                    .board
                    .tell(format!("no hash of {place} was taken: {error}"));
                Ok(())
            }
        }
    }
}

/// Size and hashes of the file at `path`, or why there are none; fails only if everything does.
#[expect(clippy::type_complexity, reason = "two faults that are not alike")]
pub(crate) fn hashes_of(
    crew: &Crew,
    root: &mut Root,
    path: &Path,
    kinds: &[Kind],
) -> Result<io::Result<(u64, Vec<(Kind, String)>)>, Error> {
    let mut hashes = Hashes::new(kinds);
    let mut buffer = vec![0; PIECE];
    let file = match root.read(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    let before = file.version();
    let mut at = 0;
    loop {
        crew.check()?;
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
        _ => Err(io::Error::other("it changed")),
    })
}
