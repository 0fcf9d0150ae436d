//! Set-up of the receiving side: threads that read bases, compare held ranges, and hash files.

use std::sync::mpsc::{Receiver, Sender, sync_channel};
use std::thread::Scope;

use lighthaul_files::options::DeltaMode;
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::halt::HaltOnDrop;
use lighthaul_session::role::Role;

use super::basis::{Basis, BasisReader};
use super::hashing::Hasher;
use super::held::{HeldCheck, HeldRange};
use super::job::Job;
use super::path_setup::PathSetup;
use super::queues::StartedLanes;
use super::receiver::Receiving;
use super::temp_files::TempFiles;

impl<'a> Receiving<'a, '_> {
    /// Starts the thread that sets up the path. `end` ends it.
    pub(super) fn set_up_path<'s>(
        &self,
        scope: &'s Scope<'s, 'a>,
        role: Role,
        (files, jobs): (Receiver<TempFiles>, Sender<Job>),
        end: &HaltOnDrop,
    ) -> Receiver<StartedLanes> {
        let setup = PathSetup {
            transfer: self.transfer,
            files,
            jobs,
            halt: end.halt(),
            begun: self.begun,
        };
        let (started, starting) = sync_channel(1);
        let threads = &*self.transfer.threads;
        scope.spawn(move || threads.run("path", || setup.run(scope, &role, &started)));
        starting
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
        let mut check = HeldCheck::new(self.transfer, files, jobs);
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
