//! Setup of the receiving side: lanes that write files, and the thread that hashes them.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, sync_channel};
use std::thread::Scope;
use std::time::Duration;

use lighthaul_files::options::DeltaMode;
use lighthaul_fs::disk::Root;
use lighthaul_io::drive::Lane;
use lighthaul_io::store::blocks::Blocks;
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::machine::Learned;
use lighthaul_session::offer::Offer;

use super::basis::{Basis, BasisReader};
use super::hashing::Hasher;
use super::held::{HeldCheck, HeldRange};
use super::job::Job;
use super::lane::ReceiveLane;
use super::queues::Queues;
use super::receiver::Receiving;
use super::sink::FileSink;
use super::temp_files::TempFiles;

/// Most objects that are announced to a lane before it takes them.
const ANNOUNCED_MAX: usize = 2;

impl<'a> Receiving<'a, '_> {
    /// Creates the lanes, which write to `files`.
    pub(super) fn create_lanes(
        &self,
        offer: Offer,
        lanes: Vec<Lane>,
        files: &TempFiles,
        queues: &mut Queues,
    ) -> Result<Vec<ReceiveLane<'a>>, Error> {
        let (ring_bytes, open_max) = self.transfer.settings.budget.of_lane(lanes.len());
        let create = |(number, lane)| {
            let sink = self.sink((files, open_max), queues.jobs.clone())?;
            let (announce, objects) = sync_channel(ANNOUNCED_MAX);
            queues.lanes.push(announce);
            Ok(ReceiveLane {
                transfer: self.transfer,
                counts: self.transfer.monitor.lane(number),
                offer,
                lane,
                store: Blocks::start(sink, offer.packet_len, ring_bytes)?,
                objects,
                learned: Learned::default(),
                held: Duration::ZERO,
            })
        };
        lanes.into_iter().enumerate().map(create).collect()
    }

    /// Creates the sink of a lane.
    fn sink(
        &self,
        (files, open_max): (&TempFiles, usize),
        jobs: Sender<Job>,
    ) -> Result<FileSink, Error> {
        let failed = |e| Error::file(FileAction::Open, &files.target, &e);
        Ok(FileSink {
            threads: Arc::clone(&self.transfer.threads),
            files: files.another().map_err(failed)?,
            kind: self.transfer.options().digest,
            open_max,
            jobs,
            object: None,
        })
    }

    /// Creates the temporary files below a root.
    pub(super) fn temp_files(&self, root: &Root, target: &Path) -> Result<TempFiles, Error> {
        let failed = |e| Error::file(FileAction::Open, target, &e);
        Ok(TempFiles {
            root: root.another().map_err(failed)?,
            target: target.to_owned(),
            boot: self.transfer.boot,
            threads: Arc::clone(&self.transfer.threads),
            journals: self.transfer.settings.budget.journals(),
            sparse: self.transfer.options().sparse,
            claims: Arc::clone(&self.transfer.claims),
        })
    }

    /// Starts the thread that reads bases, if a file may have one.
    pub(super) fn read_bases<'s>(
        &self,
        scope: &'s Scope<'s, 'a>,
        files: &TempFiles,
        unread: Receiver<Basis>,
    ) -> Result<(), Error> {
        let options = self.transfer.options();
        if options.delta == DeltaMode::Never || options.dry_run.is_some() {
            return Ok(());
        }
        let failed = |e| Error::file(FileAction::Open, &files.target, &e);
        let threads = &*self.transfer.threads;
        let mut reader = BasisReader {
            transfer: self.transfer,
            root: files.root.another().map_err(failed)?,
        };
        scope.spawn(move || threads.run("sums", || reader.run(&unread)));
        Ok(())
    }

    /// Starts the thread that compares held ranges, and copies from bases.
    pub(super) fn compare<'s>(
        &self,
        scope: &'s Scope<'s, 'a>,
        files: TempFiles,
        (ranges, jobs): (Receiver<HeldRange>, Sender<Job>),
    ) {
        let threads = &*self.transfer.threads;
        let mut check = HeldCheck {
            transfer: self.transfer,
            files,
            jobs,
            basis: None,
        };
        scope.spawn(move || threads.run("comparison", || check.run(&ranges)));
    }

    /// Starts the thread that hashes files in place, if hashes are wanted. It drops `done` at its
    /// end.
    pub(super) fn hash<'s>(
        &self,
        scope: &'s Scope<'s, 'a>,
        files: &TempFiles,
        done: Sender<()>,
    ) -> Result<(), Error> {
        let options = self.transfer.options();
        if options.hash.is_empty() || options.dry_run.is_some() {
            return Ok(());
        }
        let TempFiles { root, target, .. } = files
            .another()
            .map_err(|e| Error::file(FileAction::Open, &files.target, &e))?;
        let mut hasher = Hasher {
            transfer: self.transfer,
            root,
            target,
            kinds: options.hash.iter().map(|asked| asked.kind).collect(),
        };
        let threads = &*self.transfer.threads;
        let unhashed = self.unhashed.take();
        scope.spawn(move || {
            if let Some(files) = unhashed {
                threads.run("hasher", || hasher.run(&files));
            }
            drop(done);
        });
        Ok(())
    }
}
