//! Compares what arrived with what was sent, and gives files their names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use lighthaul_files::digest::Digest;
use lighthaul_files::hash::Asked;
use lighthaul_files::manifest::Entry;
use lighthaul_files::object::Span;
use lighthaul_io::fs::disk::Root;
use lighthaul_session::error::{Code, Error};

use super::claim::Claim;
use super::cradle::Cradle;
use super::device;
use super::dress::Wardrobe;
use super::hashing::hashes_of;
use super::job::{Arrived, Job};
use super::journal::{Passage, Record};
use super::ledger::{Ledger, Pending, Settled};
use super::links::{Name, Whereabouts};
use super::settings::{Landed, Settings};
use super::temp_files::replaced;
use super::unsynced::Unsynced;
use crate::crew::Crew;
use crate::message::Report;

/// How often folders are looked at of which everything may be in place.
const LOOK: Duration = Duration::from_millis(50);

/// The thread that publishes.
pub(crate) struct Publisher<'a> {
    crew: &'a Crew,
    ledger: &'a Ledger,
    root: Root,
    /// What people know the root as.
    target: PathBuf,
    wardrobe: &'a Wardrobe<'a>,
    /// Bytes must be on disk before a name appears.
    sync: bool,
    /// And are read back from there.
    read_back: bool,
    /// How bytes travel, and by which digest both sides compare them.
    passage: Passage,
    /// What the one file must come to.
    expected: Vec<Asked>,
    cradle: Cradle,
    /// Our mark on the root, which is gone before the root is finished.
    claim: Option<Claim>,
    /// The root itself, if it is to look like a folder of the source, and the number of its entry.
    top: Option<(u64, Entry)>,
    arrived: BTreeMap<u64, Arrived>,
    reports: BTreeMap<u64, Vec<Report>>,
    /// Objects of which both sides have spoken.
    matched: Vec<(Arrived, Vec<Report>)>,
    /// Ranges that an earlier run left, and that agree.
    kept: Vec<(Arc<Pending>, Span, Digest)>,
}

impl<'a> Publisher<'a> {
    /// A publisher below a root, which people know by its path, and which has our mark on it.
    pub(crate) fn new(
        crew: &'a Crew,
        ledger: &'a Ledger,
        (root, target, claim): Landed,
        wardrobe: &'a Wardrobe<'a>,
        (settings, cradle): (&Settings, Cradle),
    ) -> Self {
        let options = &settings.options;
        // a dry run takes no hashes
        let expects = |asked: &&Asked| asked.expected.is_some() && options.dry_run.is_none();
        Self {
            crew,
            ledger,
            root,
            target,
            wardrobe,
            sync: options.sync || options.verify_disk,
            read_back: options.verify_disk,
            passage: settings.passage(),
            expected: options.hash.iter().filter(expects).cloned().collect(),
            cradle,
            claim,
            top: None,
            arrived: BTreeMap::new(),
            reports: BTreeMap::new(),
            matched: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Publishes until nothing more can come, and folders last.
    pub(crate) fn run(&mut self, jobs: &Receiver<Job>) -> Result<(), Error> {
        loop {
            let next = jobs.recv_timeout(LOOK);
            let has_ended = matches!(next, Err(RecvTimeoutError::Disconnected));
            let step = self.crew.work.begin();
            // what has come while the disk was busy goes there together
            for job in next.ok().into_iter().chain(jobs.try_iter()) {
                self.take(job);
            }
            // what is proved stays, also where the copy fails: the next need not send it again
            self.settle()?;
            drop(step);
            self.crew.check()?;
            if has_ended {
                break;
            }
        }
        while !self.ledger.is_closed() {
            self.crew.check()?;
            std::thread::park_timeout(LOOK);
        }
        let _step = self.crew.work.begin();
        if !self.arrived.is_empty() {
            return Err(Error::new(Code::Protocol, "the sender left out a digest"));
        }
        if !self.ledger.pending().is_empty() {
            return Err(Error::new(Code::Protocol, "the sender left out a file"));
        }
        self.check_expected()?;
        self.link();
        self.leave();
        self.finish_top();
        if self.sync {
            self.sync(&Unsynced::FileSystem)?;
        }
        Ok(())
    }

    /// Takes in what is said of an object or a file.
    fn take(&mut self, job: Job) {
        match job {
            Job::Arrived(arrived) => {
                let number = arrived.object.number;
                self.arrived.insert(number, arrived);
                self.pair(number);
            }
            Job::Reports(number, reports) => {
                self.reports.entry(number).or_default().extend(reports);
                self.pair(number);
            }
            Job::Kept(file, span, digest) => self.kept.push((file, span, digest)),
            Job::Failed(number, error) => self.fail(number, error),
        }
    }

    /// Brings together an object that has come and what was said of it, once that is all.
    fn pair(&mut self, number: u64) {
        let arrived = self.arrived.get(&number);
        let reports = self.reports.get(&number).map(Vec::len);
        if arrived.is_none_or(|arrived| reports < Some(arrived.digests.len())) {
            return;
        }
        let reports = self.reports.remove(&number);
        self.matched
            .extend(self.arrived.remove(&number).zip(reports));
    }

    /// Gives files their names that are whole and compared, and notes what has come of others.
    fn settle(&mut self) -> Result<(), Error> {
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        for (arrived, reports) in std::mem::take(&mut self.matched) {
            if reports.len() != arrived.digests.len() {
                return Err(Error::new(Code::Protocol, "the sender left out a digest"));
            }
            self.judge(&arrived, reports, &mut whole, &mut parts);
        }
        for (file, span, digest) in std::mem::take(&mut self.kept) {
            if self.prove(&file, span, digest) == Some(true) {
                whole.push(file);
            }
        }
        let touched = untouched_by_failure(&whole, &parts);
        // before a mode may forbid it
        let unsynced = self.unsynced(&touched)?;
        if self.checks() {
            self.sync(&unsynced)?;
        }
        for (file, span) in &parts {
            self.note(file, *span)?;
        }
        whole.retain(|file| self.passes(file));
        for file in &whole {
            self.dress_hidden(file);
        }
        self.sync(&unsynced)?;
        for file in whole {
            self.publish(&file);
        }
        self.link();
        self.leave();
        Ok(())
    }

    /// Compares what arrived of an object with what was sent: files that are whole now, and parts of others.
    fn judge(
        &mut self,
        arrived: &Arrived,
        reports: Vec<Report>,
        whole: &mut Vec<Arc<Pending>>,
        parts: &mut Vec<(Arc<Pending>, Span)>,
    ) {
        for (index, report) in reports.into_iter().enumerate() {
            let file = &arrived.object.files[index];
            let piece = arrived.object.layout.pieces()[index];
            let span = (piece.offset, piece.end());
            let compared = self.compare(file, arrived.digests[index], report);
            match compared.map(|digest| self.prove(file, span, digest)) {
                Ok(Some(is_whole)) => {
                    if is_whole {
                        whole.push(Arc::clone(file));
                    }
                    if !is_whole || self.checks() {
                        parts.push((Arc::clone(file), span));
                    }
                }
                Ok(None) => {}
                Err(error) => self.fail(file.number, error),
            }
        }
    }

    /// Both sides have the same bytes in a range of a file; answers whether all of it is compared, nothing if the file
    /// has failed.
    fn prove(&self, file: &Pending, span: Span, digest: Digest) -> Option<bool> {
        let mut fill = file.fill();
        fill.unproved = fill.unproved.saturating_sub(span.1 - span.0);
        if self.read_back {
            fill.digests.push((span, digest));
        }
        (!fill.failed).then_some(fill.unproved == 0)
    }

    /// Notes in the journal what has come of a file, for a later run.
    fn note(&self, file: &Pending, span: Span) -> Result<(), Error> {
        let passage = self.passage;
        let noted = match &mut file.fill().journal {
            Some(journal) => journal.append(Record { span, passage }),
            None => Ok(()),
        };
        noted.map_err(|error| self.fault("cannot note what arrived of", file.entry.path(), &error))
    }

    /// Publishes a file that is whole.
    fn publish(&mut self, file: &Pending) {
        if file.fill().failed {
            return;
        }
        match self.name(file) {
            Ok(()) => self
                .ledger
                .settle(file.number, &file.entry, Ok(Settled::Now)),
            Err(error) => self.fail(file.number, error),
        }
    }

    /// Whether files that are whole are read once more before they are published.
    const fn checks(&self) -> bool {
        self.read_back || !self.expected.is_empty()
    }

    /// Whether a file that is whole may be published. One whose check was interrupted stays for a later run.
    fn passes(&mut self, file: &Pending) -> bool {
        let checked = self.check_disk(file).and_then(|()| self.check_hashes(file));
        let Err(error) = checked else { return true };
        if self.crew.check().is_ok() {
            self.fail(file.number, error);
        }
        false
    }

    /// Reads a file back from its disk, if that is wanted.
    fn check_disk(&mut self, file: &Pending) -> Result<(), Error> {
        if !self.read_back {
            return Ok(());
        }
        let digests = std::mem::take(&mut file.fill().digests);
        let crew = self.crew;
        let checked = device::check(&mut self.root, &file.temporary, &digests, || crew.check());
        checked.map_err(|error| {
            let place = self.target.join(file.entry.path());
            let text = format!("{}: {error}; {}", place.display(), outcome(file));
            Error::new(error.code, text)
        })
    }

    /// Takes the hashes that somebody expects of a file.
    fn check_hashes(&mut self, file: &Pending) -> Result<(), Error> {
        if self.expected.is_empty() {
            return Ok(());
        }
        self.expect(&file.temporary)?.map_err(|error| {
            let place = self.target.join(file.entry.path());
            let text = format!("{} was not published: {error}", place.display());
            Error::new(error.code, text)
        })
    }

    /// Whether the file at `path` is what somebody expects; fails if it cannot be read.
    fn expect(&mut self, path: &Path) -> Result<Result<(), Error>, Error> {
        let kinds: Vec<_> = self.expected.iter().map(|asked| asked.kind).collect();
        let hashed = hashes_of(self.crew, &mut self.root, path, &kinds)?;
        let (_, hashes) = hashed.map_err(|error| self.fault("cannot read back", path, &error))?;
        let mut expected = self.expected.iter();
        Ok(expected.try_for_each(|asked| asked.check(&hashes)))
    }

    /// Fails if the one file was there before and is not what somebody expects.
    fn check_expected(&mut self) -> Result<(), Error> {
        if self.expected.is_empty() || self.ledger.verdict().unchanged == 0 {
            return Ok(());
        }
        let path = self.ledger.expected();
        self.expect(&path)?.map_err(|error| {
            let place = self.target.join(path);
            let text = format!("{} is not what was expected: {error}", place.display());
            Error::new(error.code, text)
        })
    }

    fn compare(
        &self,
        file: &Pending,
        ours: Option<Digest>,
        report: Report,
    ) -> Result<Digest, Error> {
        match report {
            Report::Failed { code, why } => Err(Error::new(Code::from_number(code), why)),
            Report::Digest(theirs) if ours == Some(theirs) || file.fill().failed => Ok(theirs),
            Report::Digest(_) => {
                let text = format!(
                    "{}: what arrived is not what was sent; {}",
                    self.target.join(file.entry.path()).display(),
                    outcome(file)
                );
                Err(Error::new(Code::Integrity, text))
            }
        }
    }

    /// Entry `number` will not be in place.
    fn fail(&mut self, number: u64, error: Error) {
        let Some(file) = self.ledger.find(number) else {
            return;
        };
        let mut fill = file.fill();
        fill.failed = true;
        if fill.created && !file.is_in_place() {
            self.root.remove(&file.temporary).ok();
        }
        if fill.journal.take().is_some() {
            self.root.remove(&file.journal).ok();
        }
        drop(fill);
        self.ledger.settle(number, &file.entry, Err(error));
    }

    /// Gives a file that nobody sees yet its mode and time, so that they are synced with its bytes. One that is in
    /// its place gets them behind its bytes, or it would look whole before it is.
    fn dress_hidden(&mut self, file: &Pending) {
        if file.is_in_place() {
            return;
        }
        if let Err(error) = self.dress(file) {
            let error = self.fault("cannot publish", file.entry.path(), &error);
            self.fail(file.number, error);
        }
    }

    /// Gives a file that is whole its mode, its time and whatever else is kept.
    fn dress(&mut self, file: &Pending) -> io::Result<()> {
        let (root, entry) = (&mut self.root, &file.entry);
        if file.fill().finished {
            return Ok(());
        }
        if !self.wardrobe.dress(root, &file.temporary, entry)? {
            let output = root.reopen(&file.temporary)?;
            output.set_mode(entry.mode)?;
            output.set_time(entry.seconds, entry.nanos)?;
        }
        file.fill().finished = true;
        Ok(())
    }

    /// Gives a file that is whole its name.
    fn name(&mut self, file: &Pending) -> Result<(), Error> {
        let named = self.dress(file).and_then(|()| self.rename(file));
        named.map_err(|error| self.fault("cannot publish", file.entry.path(), &error))
    }

    fn rename(&mut self, file: &Pending) -> io::Result<()> {
        let inode = file.fill().inode;
        let there = self.root.look(&file.temporary)?.map(|there| there.inode);
        if inode.is_some() && inode != there {
            return Err(replaced());
        }
        self.root.rename(&file.temporary, file.entry.path())?;
        if file.fill().journal.take().is_some() {
            self.root.remove(&file.journal)?;
        }
        Ok(())
    }

    /// Gives files that are in place the further names that they have.
    fn link(&mut self) {
        while let Some((name, first)) = self.ledger.take_link() {
            let linked = self.link_to(&name, first);
            self.ledger.settle(name.number, &name.entry, linked);
        }
    }

    fn link_to(&mut self, name: &Name, first: Whereabouts) -> Result<Settled, Error> {
        let path = name.entry.path();
        let first = first.map_err(|code| {
            let text = format!(
                "{}: it is one file with another that is not in place",
                self.target.join(path).display()
            );
            Error::new(Code::from_number(code), text)
        })?;
        let first = Path::new(OsStr::from_bytes(&first));
        let linked = link(&mut self.root, first, path, &name.temporary);
        linked.map_err(|error| {
            let what = format!(
                "cannot make one file of {} and",
                self.target.join(first).display()
            );
            self.fault(&what, path, &error)
        })
    }

    /// Gives folders their modes and times once everything in them is in place, since filling one
    /// changes its time.
    fn leave(&mut self) {
        while let Some((number, entry)) = self.ledger.take_left() {
            if entry.is_top() {
                self.top = Some((number, entry));
                continue;
            }
            let set = self
                .finish(&entry)
                .map_err(|error| self.fault("cannot set mode and time of", entry.path(), &error));
            self.ledger
                .settle(number, &entry, set.map(|()| Settled::Now));
        }
    }

    /// Makes the root look like the folder whose contents were copied, when nothing in it changes any more. It may
    /// be somebody else's, which does not spoil the copy.
    fn finish_top(&mut self) {
        if let Some(claim) = self.claim.take() {
            claim.lift();
        }
        let Some((number, entry)) = self.top.take() else {
            return;
        };
        if let Err(error) = self.finish(&entry) {
            let place = self.target.display();
            let text = format!("mode and time of {place} could not be kept: {error}");
            self.wardrobe.warn(text);
        }
        self.ledger.settle(number, &entry, Ok(Settled::Now));
    }

    fn finish(&mut self, folder: &Entry) -> io::Result<()> {
        self.clear(folder.path());
        let (root, path) = (&mut self.root, folder.path());
        if !self.wardrobe.dress(root, path, folder)? {
            // whose mode forbids us to look for it by its name
            root.set_time(path, folder.seconds, folder.nanos)?;
            root.set_folder_mode(path, folder.mode)?;
        }
        Ok(())
    }

    /// Removes the folder for what is not whole in `folder`, once nothing is in it.
    fn clear(&mut self, folder: &Path) {
        if let Some(apart) = self.cradle.folder(folder) {
            self.root.remove_folder(&apart).ok();
        }
    }

    /// Removes what will not be published, but for what a later run can go on with.
    pub(crate) fn clean(&mut self) {
        let _step = self.crew.work.begin();
        for file in self.ledger.pending() {
            let mut fill = file.fill();
            let data_len = file.entry.data_len();
            let proved = data_len - fill.unproved.min(data_len);
            if file.resumable && (fill.created && proved > 0 || !fill.held.is_empty()) {
                continue;
            }
            // whoever still writes must not make it now
            fill.failed = true;
            if fill.created && !file.is_in_place() {
                self.root.remove(&file.temporary).ok();
            }
            if fill.journal.take().is_some() {
                self.root.remove(&file.journal).ok();
            }
            if let Some(folder) = file.entry.path().parent() {
                self.clear(folder);
            }
        }
        self.clear(Path::new(""));
    }

    /// Returns the files to sync before they are renamed.
    fn unsynced(&mut self, files: &[Arc<Pending>]) -> Result<Unsynced, Error> {
        if !self.sync {
            return Ok(Unsynced::Nothing);
        }
        let unsynced = Unsynced::of(&mut self.root, files);
        unsynced.map_err(|(path, error)| self.fault("cannot sync", &path, &error))
    }

    /// Syncs them.
    fn sync(&self, unsynced: &Unsynced) -> Result<(), Error> {
        let synced = unsynced.sync(&self.root);
        synced.map_err(|(path, error)| self.fault("cannot sync", &path, &error))
    }

    fn fault(&self, what: &str, path: &Path, error: &io::Error) -> Error {
        Error::file(Code::Io, what, &self.target.join(path), error)
    }
}

/// Files of these that have not failed, each once.
fn untouched_by_failure(
    whole: &[Arc<Pending>],
    parts: &[(Arc<Pending>, Span)],
) -> Vec<Arc<Pending>> {
    let parts = parts.iter().map(|(file, _)| file);
    let files = whole.iter().chain(parts);
    let mut files: Vec<_> = files.filter(|file| !file.fill().failed).cloned().collect();
    files.sort_unstable_by_key(|file| file.number);
    files.dedup_by_key(|file| file.number);
    files
}

/// What became of a file whose bytes are wrong.
fn outcome(file: &Pending) -> &'static str {
    if file.is_in_place() {
        "what is there now is spoilt, copy it again"
    } else {
        "nothing was published, copy it again"
    }
}

/// Makes `path` a name of the file `first`, by way of a hidden one.
fn link(root: &mut Root, first: &Path, path: &Path, temporary: &Path) -> io::Result<Settled> {
    let (one, other) = (root.look(first)?, root.look(path)?);
    if one
        .zip(other)
        .is_some_and(|(one, other)| one.inode == other.inode)
    {
        return Ok(Settled::Before);
    }
    root.hard_link(first, temporary)?;
    let renamed = root.rename(temporary, path);
    // it is still there if that failed, or if both became one file meanwhile
    root.remove(temporary).ok();
    renamed.map(|()| Settled::Now)
}
