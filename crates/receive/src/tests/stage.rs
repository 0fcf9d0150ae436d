//! Publisher with jobs from the test.
//!
//! `Stage` has a target with temporary files, and an `EntryTable` that expects them. `Stage::run`
//! gives jobs to the publisher, ends the list, and cleans up as the receiver does. The functions
//! below create the jobs: `whole` for a file in one object, `object` for any ranges.

use std::fs::{self, File};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use lighthaul_copy::message::Failure;
use lighthaul_copy::monitor::Monitor;
use lighthaul_copy::report::Report;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_files::digest::{self, Digest, Digester};
use lighthaul_files::hash::HashRequest;
use lighthaul_files::manifest::Entry;
use lighthaul_files::object::{Layout, Piece, Span};
use lighthaul_files::options::Options;
use lighthaul_files::temp_place::TempPlace;
use lighthaul_files::writer_lock::WriterLock;
use lighthaul_fs::disk::Root;
use lighthaul_session::error::Error;

use super::bench::Bench;
use super::checked_list::{file, writer};
use crate::entry_table::{EntryTable, PendingFile};
use crate::job::{Arrived, Incoming, Job};
use crate::journal::{Journal, Record, Subject};
use crate::metadata::MetadataWriter;
use crate::publish::Publisher;
use crate::settings::{OpenTarget, Settings};
use crate::tests::bench::slot;

/// Publisher with its surroundings.
pub(super) struct Stage {
    pub(super) bench: Bench,
    pub(super) threads: ThreadGroup,
    pub(super) table: EntryTable,
    pub(super) monitor: Monitor,
    pub(super) settings: Settings,
    pub(super) lock: bool,
}

impl Stage {
    pub(super) fn new(name: &str, options: Options) -> Self {
        Self {
            bench: Bench::new(name),
            threads: ThreadGroup::default(),
            table: EntryTable::default(),
            monitor: Monitor::default(),
            settings: Settings {
                options,
                ..Settings::default()
            },
            lock: false,
        }
    }

    /// Adds a file whose temporary file contains `bytes`.
    pub(super) fn expect(&self, number: u64, path: &str, bytes: &str) -> Arc<PendingFile> {
        self.pend(number, file(path, bytes.len() as u64), bytes, false)
    }

    /// Adds a file like [`Self::expect`], with a journal.
    pub(super) fn expect_resumable(
        &self,
        number: u64,
        path: &str,
        bytes: &str,
    ) -> Arc<PendingFile> {
        let pending = self.pend(number, file(path, bytes.len() as u64), bytes, true);
        let journal = self.bench.target("").join(&pending.journal);
        let file = File::create(journal).unwrap();
        let journal = Journal::begin((file, slot()), subject(&pending), &[]).unwrap();
        pending.fill().journal = Some(journal);
        pending
    }

    pub(super) fn pend(
        &self,
        number: u64,
        entry: Entry,
        bytes: &str,
        resumable: bool,
    ) -> Arc<PendingFile> {
        let temp_place = self.temp_place();
        let temporary = temp_place.temporary(&writer(), entry.path(), number);
        let place = self.bench.target("").join(&temporary);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, bytes).unwrap();
        let names = (temporary, temp_place.journal(entry.path()));
        let pending = PendingFile::new(number, entry, names, resumable);
        pending.expect(&[(0, bytes.len() as u64)]);
        pending.fill().created = true;
        self.table.expect(pending);
        self.table.find(number).unwrap()
    }

    /// Notes the version of a temporary file, like a lane after its last write.
    pub(super) fn note_version(&self, file: &PendingFile) {
        let mut root = Root::open(&self.bench.target("")).unwrap();
        file.note_version(&root.reopen(&file.temporary).unwrap())
            .unwrap();
    }

    /// Publishes the files of `jobs`, ends the list, and cleans up.
    pub(super) fn run(&self, jobs: Vec<Job>) -> Result<(), Error> {
        self.table.close();
        let metadata = MetadataWriter::new(self.settings.options.keep, &self.monitor);
        let mut publisher = Publisher::new(
            &self.threads,
            &self.table,
            self.opened(),
            &metadata,
            (&self.settings, self.temp_place()),
        );
        let result = publisher.run(&sent(jobs));
        publisher.clean();
        result
    }

    fn temp_place(&self) -> TempPlace {
        TempPlace::new(&self.settings.options).unwrap()
    }

    fn opened(&self) -> OpenTarget {
        let root = Root::open(&self.bench.target("")).unwrap();
        let lock = || WriterLock::acquire(root.another().unwrap(), &writer(), true);
        let lock = self.lock.then(lock).flatten();
        (root, self.bench.target(""), lock)
    }

    /// Returns the only failure.
    pub(super) fn failure(&self) -> Failure {
        let (_, mut failures) = self.table.take_settled();
        assert_eq!(failures.len(), 1, "{failures:?}");
        failures.remove(0)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let names = self.bench.names("").into_iter();
        names.map(|name| name.into_string().unwrap()).collect()
    }
}

/// Returns both jobs of an object with all of `file`, which contains `bytes`.
pub(super) fn whole(file: &Arc<PendingFile>, bytes: &str) -> Vec<Job> {
    let span = (0, bytes.len() as u64);
    object(file.number, &[(file, span)], &[bytes], &[bytes])
}

/// Returns a channel with these jobs, which then ends.
fn sent(jobs: Vec<Job>) -> Receiver<Job> {
    let (send, todo) = channel();
    for job in jobs {
        send.send(job).unwrap();
    }
    todo
}

/// Returns the jobs of an object with these ranges, the received bytes and the sent bytes.
pub(super) fn object(
    number: u64,
    pieces: &[(&Arc<PendingFile>, Span)],
    ours: &[&str],
    theirs: &[&str],
) -> Vec<Job> {
    let reports = theirs.iter().map(|bytes| Report::Digest(digest(bytes)));
    vec![
        Job::Arrived(arrived(number, pieces, ours)),
        Job::Reports(number, reports.collect()),
    ]
}

pub(super) fn arrived(number: u64, pieces: &[(&Arc<PendingFile>, Span)], ours: &[&str]) -> Arrived {
    let piece = |(file, (from, till)): &(&Arc<PendingFile>, Span)| Piece {
        entry: file.number,
        offset: *from,
        len: till - from,
    };
    let files = pieces.iter().map(|(file, _)| Arc::clone(file)).collect();
    let object = Incoming {
        protocol: lighthaul_session::protocol::Protocol::Rbudp,
        number,
        layout: Layout::new(pieces.iter().map(piece).collect()).unwrap(),
        files,
    };
    let digests = ours.iter().map(|bytes| Some(digest(bytes)));
    Arrived {
        object: object.into(),
        digests: digests.collect(),
    }
}

pub(super) fn digest(bytes: &str) -> Digest {
    let mut digester = Digester::new(digest::DigestKind::Crc128, bytes.len() as u64);
    digester.update(0, bytes.as_bytes());
    digester.finish().unwrap()
}

pub(super) fn subject(file: &PendingFile) -> Subject {
    Subject {
        look: file.look(),
        boot: 0,
    }
}

/// Returns the records in the journal of `file`.
#[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
pub(super) fn noted(stage: &Stage, file: &PendingFile) -> Vec<Record> {
    let journal = File::open(stage.bench.target("").join(&file.journal)).unwrap();
    Journal::read(&journal, subject(file)).unwrap()
}

pub(super) fn synced() -> Options {
    Options {
        sync: true,
        ..Options::default()
    }
}

pub(super) fn expecting(text: &str) -> Options {
    Options {
        hash: HashRequest::parse_list(text).unwrap(),
        ..Options::default()
    }
}
