//! What the receiver wants of a file: the bytes that must come, and the ranges that an earlier run left, which must be
//! compared with the source before they count.

use std::fs::File;
use std::io;

use lighthaul_files::manifest::Entry;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Code, Error};
use rustix::fs::FileType;

use super::journal::{
    Journal, Record, Subject, digest_for, longest, merged, missing, within, within_file,
};
use super::judge::{Judge, Place};
use super::ledger::Pending;
use super::temp_files::is_continued;
use crate::crew::LOOK;
use crate::message::WantedFile;

/// A file from this size on leaves a journal, so that a later run can go on with it.
const RESUMABLE: u64 = 8 << 20;

impl Judge<'_> {
    /// What must come of a file, and what an earlier run may have left of it.
    pub(super) fn want(&self, place: &mut Place, number: u64, entry: &Entry) -> WantedFile {
        let size = entry.size();
        let pending = self.pending(number, entry);
        let records = self.left_behind(place, &pending);
        let digest = digest_for(&records, self.transfer.options().digest);
        let data = entry.data();
        let there = longest(merged(records.iter().map(|record| record.span).collect()));
        let held = within(&there, &data);
        let owed = within(&missing(&there, size), &data);
        pending.expect(owed.clone());
        pending.expect_digests(&held, digest, records);
        self.transfer.ledger.expect(pending);
        let whole = held.is_empty() && owed == [(0, size)];
        WantedFile {
            number,
            send: (!whole).then_some(owed),
            held,
            digest,
        }
    }

    /// In a dry run, bytes of a file that an earlier run left, and that the copy would not send again.
    pub(super) fn would_keep(&self, place: &mut Place, number: u64, entry: &Entry) -> u64 {
        if place.is_fresh(&entry.path) {
            return 0;
        }
        let records = self.left_behind(place, &self.pending(number, entry));
        let there = longest(merged(records.iter().map(|record| record.span).collect()));
        let held = within(&there, &entry.data());
        held.iter().map(|(from, till)| till - from).sum()
    }

    /// A file that is to come, and where it is until it is whole.
    fn pending(&self, number: u64, entry: &Entry) -> Pending {
        let path = entry.path();
        let resumable = entry.size() >= RESUMABLE;
        let temporary = if resumable {
            self.transfer.cradle.partial(path)
        } else {
            self.transfer.cradle.temporary(&self.writer, path, number)
        };
        let names = (temporary, self.transfer.cradle.journal(path));
        Pending::new(number, entry.clone(), names, resumable)
    }

    /// What an earlier run noted of a file, if it left a journal and the file that this is about.
    fn left_behind(&self, place: &mut Place, pending: &Pending) -> Vec<Record> {
        if !pending.resumable {
            return Vec::new();
        }
        let Ok(Some(partial)) = place.root.look(&pending.temporary) else {
            return Vec::new();
        };
        let journal = place.root.look(&pending.journal);
        let is_journal = matches!(journal, Ok(Some(meta)) if meta.kind == FileType::RegularFile && meta.is_ours());
        if !is_continued(pending, &partial) || !is_journal {
            return Vec::new();
        }
        let subject = self.subject(pending);
        let read = if self.transfer.options().dry_run.is_some() {
            // which holds nothing, and waits for nobody
            let journal = place.root.read(&pending.journal);
            journal.and_then(|file| Journal::look(&file, subject))
        } else {
            let locked = self.lock(place, pending);
            locked.and_then(|file| Journal::read(&file, subject))
        };
        within_file(read.unwrap_or_default(), partial.size)
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
            let now = self.transfer.session.clock.now();
            let until = place.waits_until.get_or_insert_with(|| {
                let patience = self.transfer.options().patience();
                let path = place.landing.folder.join(pending.entry.path());
                self.transfer.board.tell(format!(
                    "{}: another transfer is writing it, which is given {} s to end",
                    path.display(),
                    patience.as_secs()
                ));
                now + patience
            });
            if now >= *until || self.transfer.crew.check().is_err() {
                return locked;
            }
            pause(LOOK);
        }
    }

    /// What a journal of `pending` is about.
    pub(super) const fn subject(&self, pending: &Pending) -> Subject {
        Subject {
            look: pending.look(),
            boot: self.transfer.boot,
        }
    }

    /// Refuses the whole copy if `entry` cannot fit beside what was wanted before it.
    pub(super) fn fit(&self, place: &mut Place, entry: &Entry) -> Result<(), Error> {
        // zeros take no room then, and a folder that a dry run does not make is on no disk yet
        let is_dry = self.transfer.options().dry_run.is_some();
        let is_nowhere = is_dry && (!place.landing.is_there() || place.is_fresh(&entry.path));
        if self.transfer.options().sparse || is_nowhere {
            return Ok(());
        }
        let left = self.transfer.cradle.partial(entry.path());
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
