//! Hashes of files, taken in a thread of its own: in their order, whatever the order in which parts of them
//! are sent, and of those that need not be sent, too.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use lighthaul_io::disk::Look;
use lighthaul_io::ground::Ground;

use crate::board::Board;
use crate::crew::{Crew, LOOK};
use crate::error::Error;
use crate::hash::{Hashed, Hashes, Kind};
use crate::message::Message;
use crate::session::Session;
use crate::watch::Sight;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// A file that was found.
#[derive(Debug)]
pub(crate) struct Unhashed {
    pub(crate) path: Vec<u8>,
    pub(crate) place: PathBuf,
    pub(crate) look: Look,
}

/// The thread.
pub(crate) struct Hasher<'a> {
    pub(crate) crew: &'a Crew,
    pub(crate) session: &'a Session,
    pub(crate) board: &'a Board,
    pub(crate) ground: Arc<Ground>,
    pub(crate) kinds: Vec<Kind>,
}

impl Hasher<'_> {
    /// Takes and tells the hashes of all `files`.
    pub(crate) fn run(&self, files: &Receiver<Unhashed>) -> Result<(), Error> {
        loop {
            match files.recv_timeout(LOOK) {
                Ok(file) => self.file(file)?,
                Err(RecvTimeoutError::Timeout) => self.crew.check()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn file(&self, file: Unhashed) -> Result<(), Error> {
        let hashes = match self.hash(&file)? {
            Ok(hashes) => hashes,
            Err(error) => {
                let place = file.place.display();
                let text = format!("no hash of {place} was taken: {error}");
                self.board.show(Sight::Warning(text.clone()));
                return self.session.say(&Message::Warning(text));
            }
        };
        let hashed = Hashed {
            path: file.path,
            size: file.look.size,
            hashes,
        };
        self.board.show(Sight::Hashed(hashed.clone()));
        self.session.say(&Message::Hashed(hashed))
    }

    /// The hashes of a file, or why it has none; fails only if everything does.
    fn hash(&self, file: &Unhashed) -> Result<io::Result<Vec<(Kind, String)>>, Error> {
        let input = match self.ground.file(&file.place) {
            Ok(input) => input,
            Err(error) => return Ok(Err(error)),
        };
        let mut hashes = Hashes::new(&self.kinds);
        let mut buffer = vec![0; PIECE.min(file.look.size as usize)];
        let mut at = 0;
        while at < file.look.size {
            self.crew.check()?;
            let part = (file.look.size - at).min(PIECE as u64) as usize;
            match input.read_at(&mut buffer[..part], at) {
                Ok(done) if done == part => hashes.update(&buffer[..part]),
                Ok(_) => return Ok(Err(io::Error::other("it became shorter"))),
                Err(error) => return Ok(Err(error)),
            }
            at += part as u64;
        }
        Ok(match input.look() {
            Ok(look) if look == file.look => Ok(hashes.finish()),
            Ok(_) => Err(io::Error::other("it changed")),
            Err(error) => Err(error),
        })
    }
}
