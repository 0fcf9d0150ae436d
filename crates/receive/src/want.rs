//! Ranges of a file that the receiver requests, and ranges from an earlier run that it keeps.
//!
//! ```text
//! journal of an earlier run --> held ranges: compared with the source by digests
//! all other data -------------> owed ranges: sent, or copied from the old version
//! ```
//!
//! Files of 8 MiB or more have a journal. A temporary file of another user does not count. If
//! another copy has locked the journal, the receiver waits, at most as long as a peer may be
//! silent.

use std::fs::File;
use std::io;
use std::path::Path;

use lighthaul_copy::error::Fault;
use lighthaul_copy::message::WantedFile;
use lighthaul_copy::thread_group::CHECK_INTERVAL;
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::object::within;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Error, FileAction};
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::PendingFile;
use super::journal::{Journal, Record, Subject, digest_for, longest, merged, missing, within_file};
use super::stage::look;
use super::temp_files::is_resumable;

/// Size from which a file has a journal, so that a later run can resume it.
const RESUMABLE: u64 = 8 << 20;

impl EntryChecker<'_> {
    /// Returns the request for a file. Ranges that an earlier run has left are compared instead of
    /// sent.
    pub(super) fn want(&self, place: &mut Place, number: u64, entry: &Entry) -> WantedFile {
        let size = entry.size();
        let pending = self.pending(number, entry);
        let records = self.earlier_records(place, &pending);
        let digest = digest_for(&records, self.transfer.options().digest);
        let data = entry.data();
        let there = longest(merged(records.iter().map(|record| record.span).collect()));
        let held = within(&there, &data);
        let owed = within(&missing(&there, size), &data);
        let basis = self.basis_len(place, &pending).filter(|_| !owed.is_empty());
        match basis {
            Some(len) => pending.expect_delta(&owed, len),
            None => pending.expect(&owed),
        }
        pending.expect_digests(&held, digest, records);
        self.transfer.table.expect(pending);
        let whole = held.is_empty() && owed == [(0, size)];
        WantedFile {
            number,
            send: (!whole).then_some(owed),
            held,
            digest,
            basis,
        }
    }

    /// Returns the bytes of an earlier run that the copy would keep, for a dry run.
    pub(super) fn kept_bytes(&self, place: &mut Place, number: u64, entry: &Entry) -> u64 {
        if place.is_emptied(&entry.path) {
            return 0;
        }
        let records = self.earlier_records(place, &self.pending(number, entry));
        let there = longest(merged(records.iter().map(|record| record.span).collect()));
        let held = within(&there, &entry.data());
        held.iter().map(|(from, till)| till - from).sum()
    }

    /// Creates the state of a file that will be received.
    fn pending(&self, number: u64, entry: &Entry) -> PendingFile {
        let path = entry.path();
        let resumable = entry.size() >= RESUMABLE;
        let temporary = if resumable {
            self.transfer.temp_place.partial(path)
        } else {
            self.transfer
                .temp_place
                .temporary(&self.writer, path, number)
        };
        let names = (temporary, self.transfer.temp_place.journal(path));
        PendingFile::new(number, entry.clone(), names, resumable)
    }

    /// Returns the records of an earlier run, if that run left a journal and the right partial file.
    fn earlier_records(&self, place: &mut Place, pending: &PendingFile) -> Vec<Record> {
        if !pending.resumable {
            return Vec::new();
        }
        let Ok(Some(partial)) = place.root.look(&pending.temporary) else {
            return Vec::new();
        };
        let is_journal = is_own_file(place, &pending.journal);
        let is_dry = self.transfer.options().dry_run.is_some();
        let is_claimed = || {
            let claims = &self.transfer.claims;
            pending.is_in_place()
                && partial.names > 1
                && !is_dry
                && !claims.write(partial.inode, pending.number)
        };
        if !is_resumable(pending, &partial) || !is_journal || is_claimed() {
            return Vec::new();
        }
        let subject = self.subject(pending);
        let read = if is_dry {
            // a dry run takes no lock and does not wait
            let journal = place.root.read(&pending.journal);
            journal.and_then(|file| Journal::look(&file, subject))
        } else {
            let locked = self.lock(place, pending);
            locked.and_then(|file| Journal::read(&file, subject))
        };
        within_file(read.unwrap_or_default(), partial.size)
    }

    /// Removes the journal of a file that is complete. A power cut may come between the name of a file and the end of
    /// its journal.
    pub(super) fn remove_journal(&self, place: &mut Place, entry: &Entry) {
        if !matches!(entry.kind, EntryKind::File(size) if size >= RESUMABLE) {
            return;
        }
        let partial = self.transfer.temp_place.partial(entry.path());
        let journal = self.transfer.temp_place.journal(entry.path());
        let has_partial = partial != entry.path() && !matches!(place.root.look(&partial), Ok(None));
        if has_partial || !is_own_file(place, &journal) {
            return;
        }
        // another copy may be writing the file
        if let Ok(_locked) = place.root.lock(&journal) {
            place.root.remove(&journal).ok();
        }
    }

    /// Opens and locks the journal of a file. If another copy has locked it, waits until that ends.
    /// All files of this copy together wait at most as long as the peer may be silent.
    fn lock(&self, place: &mut Place, pending: &PendingFile) -> io::Result<File> {
        loop {
            let locked = place.root.lock(&pending.journal);
            let is_held = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
            if !locked.as_ref().is_err_and(is_held) {
                return locked;
            }
            let now = self.transfer.session.clock.now();
            let until = place.waits_until.get_or_insert_with(|| {
                let patience = self.transfer.options().stall_timeout();
                let path = place.target_folder.folder.join(pending.entry.path());
                self.transfer.monitor.warn(format!(
                    "waiting up to {1} s for another copy that is writing {0}",
                    path.display(),
                    patience.as_secs()
                ));
                now + patience
            });
            if now >= *until || self.transfer.threads.check().is_err() {
                return locked;
            }
            pause(CHECK_INTERVAL);
        }
    }

    /// Returns the subject of the journal of `pending`.
    pub(super) const fn subject(&self, pending: &PendingFile) -> Subject {
        Subject {
            look: pending.look(),
            boot: self.transfer.boot,
        }
    }

    /// Rejects the whole copy if `entry` certainly does not fit beside the earlier entries.
    pub(super) fn fit(&self, place: &mut Place, entry: &Entry) -> Result<(), Error> {
        // sparse files may need no space, and a directory that a dry run does not create has no device
        let is_dry = self.transfer.options().dry_run.is_some();
        let is_nowhere =
            is_dry && (!place.target_folder.is_there() || place.is_emptied(&entry.path));
        let is_far = place.target_folder.objects().is_some();
        if self.transfer.options().sparse || is_nowhere || is_far {
            return Ok(());
        }
        let left = if self.transfer.options().striped.is_some() {
            self.transfer.temp_place.staged(entry.path(), look(entry))
        } else {
            self.transfer.temp_place.partial(entry.path())
        };
        match place.free_space.reserve(&mut place.root, entry, &left) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(Fault::NoSpace {
                place: place.target_folder.folder.clone(),
                why,
            }
            .into()),
            Err(error) => Err(place.fault(FileAction::ReadSpace, entry, &error)),
        }
    }
}

/// Returns true if `path` is a regular file of this user.
fn is_own_file(place: &mut Place, path: &Path) -> bool {
    let there = place.root.look(path);
    matches!(there, Ok(Some(meta)) if meta.kind == FileType::RegularFile && meta.is_ours())
}
