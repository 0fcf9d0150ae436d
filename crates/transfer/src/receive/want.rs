//! What must come of a file: all of it that an earlier run has not proved.

use std::fs::File;
use std::io;
use std::path::Path;

use lighthaul_io::disk::Root;
use lighthaul_io::wait::pause;
use rustix::fs::FileType;

use super::journal::{Journal, Proved, Subject, merged, missing, within};
use super::judge::{Judge, Place};
use super::ledger::Pending;
use crate::crew::LOOK;
use crate::digest::{self, Taking};
use crate::error::{Code, Error};
use crate::manifest::Entry;
use crate::message::Span;

/// A file from this size on leaves a journal, so that a later run can go on with it.
const RESUMABLE: u64 = 8 << 20;

impl Judge<'_> {
    /// A file must come; what an earlier run proved of it need not.
    pub(super) fn want(&self, place: &mut Place, number: u64, entry: &Entry) -> Vec<Span> {
        let (path, size) = (entry.path(), entry.size());
        let resumable = size >= RESUMABLE;
        let temporary = if resumable {
            self.cradle.partial(path)
        } else {
            self.cradle.temporary(&self.writer, path, number)
        };
        let names = (temporary, self.cradle.journal(path));
        let pending = Pending::new(number, entry.clone(), names, resumable);
        let held = if resumable {
            self.proved(place, &pending)
        } else {
            Vec::new()
        };
        let there = merged(held.iter().map(|(span, _)| *span).collect());
        let data = entry.data();
        let mut owed = within(&missing(&there, size), &data);
        if let (true, Some((_, till))) = (owed.is_empty(), data.last()) {
            // it only has to be published, which happens where bytes arrive: let the last one come again
            owed = vec![(till - 1, *till)];
        }
        pending.expect(owed.clone(), held);
        self.ledger.expect(pending);
        owed
    }

    /// What an earlier run proved of a file, if it left a journal and the bytes it speaks of.
    fn proved(&self, place: &mut Place, pending: &Pending) -> Vec<Proved> {
        let Ok(Some(partial)) = place.root.look(&pending.temporary) else {
            return Vec::new();
        };
        let journal = &pending.journal;
        if partial.kind != FileType::RegularFile || !matches!(place.root.look(journal), Ok(Some(_)))
        {
            return Vec::new();
        }
        let subject = self.subject(pending);
        let read = self
            .lock(place, pending)
            .and_then(|file| Journal::read(&file, subject));
        let mut held = read.unwrap_or_default();
        held.retain(|((_, till), _)| *till <= partial.size);
        if pending.is_in_place() {
            // anybody may have changed what everybody sees
            held.retain(|proved| is_there(&mut place.root, &pending.temporary, *proved));
        }
        held
    }

    /// The journal of a file. Whoever holds it may be a run that has not noticed yet that nobody is there any more: it is
    /// waited for, all of a copy's files together as long as that may take.
    fn lock(&self, place: &mut Place, pending: &Pending) -> io::Result<File> {
        loop {
            let locked = place.root.lock(&pending.journal);
            let is_held = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
            if !locked.as_ref().is_err_and(is_held) {
                return locked;
            }
            let now = self.session.clock.now();
            let until = place.waits_until.get_or_insert_with(|| {
                let patience = self.options.patience();
                let path = place.landing.folder.join(pending.entry.path());
                self.board.tell(format!(
                    "{}: another transfer is writing it, which is given {} s to end",
                    path.display(),
                    patience.as_secs()
                ));
                now + patience
            });
            if now >= *until || self.crew.check().is_err() {
                return locked;
            }
            pause(LOOK);
        }
    }

    /// What a journal of `pending` is about.
    pub(super) const fn subject(&self, pending: &Pending) -> Subject {
        Subject {
            look: pending.look(),
            boot: self.boot,
        }
    }

    /// Refuses the whole copy if `entry` cannot fit beside what was wanted before it.
    pub(super) fn fit(&self, place: &mut Place, entry: &Entry) -> Result<(), Error> {
        // zeros take no room then
        if self.options.sparse {
            return Ok(());
        }
        let left = self.cradle.partial(entry.path());
        match place.room.take(&mut place.root, entry, &left) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => {
                let text = format!("{}: {why}", place.landing.folder.display());
                Err(Error::new(Code::Io, text))
            }
            Err(error) => Err(place.fault("cannot tell the room for", entry, &error)),
        }
    }
}

/// Whether the file at `path` still has the bytes that were proved.
fn is_there(root: &mut Root, path: &Path, ((from, till), digest): Proved) -> bool {
    let Ok(file) = root.read(path) else {
        return false;
    };
    let read = |at, buffer: &mut [u8]| file.read_at(buffer, from + at);
    let kind = digest.kind();
    kind != digest::Kind::None && Taking::of(kind, till - from, read) == Some(digest)
}
