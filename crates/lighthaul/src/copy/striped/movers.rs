//! Movers of a striped copy: threads that make a pair of hosts stage units of the work queue.

use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_files::list::PathList;
use lighthaul_files::naming::Naming;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::Error;

use super::parts::Parts;
use super::plan::is_passing;
use super::work_queue::WorkQueue;
use crate::copy::reporter::Reporter;
use crate::copy::transfer;
use crate::event::Event;
use crate::list::List;

/// Pauses before a mover that failed begins again.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Thread of one pair of hosts.
pub(super) struct Mover<'a> {
    pub(super) number: usize,
    pub(super) parts: &'a Parts,
    pub(super) queue: &'a Arc<WorkQueue>,
    /// Naming of the entries, which is known before the first unit.
    pub(super) naming: &'a OnceLock<Naming>,
    /// Sessions that may fail in sequence.
    pub(super) retries: u32,
    pub(super) told: Sender<Told>,
}

/// Message of a mover.
pub(super) enum Told {
    /// Event of its session.
    Event(usize, Event),
    /// Path of a whole file that is staged at the target of the mover only.
    Staged(usize, Vec<u8>),
    /// End of its session.
    Moved(usize, Summary),
    /// Failure of its session; its units go to others.
    Failed(usize, Error),
}

impl Mover<'_> {
    /// Stages units until all work is done. Fails if the pair cannot work any more.
    pub(super) fn run(&self) -> Result<(), Error> {
        let mut failures = 0;
        let mut pause = PAUSE_MIN;
        while let Some(session) = self.queue.begin_session(self.number) {
            let (result, has_moved) = self.session(session);
            self.queue.end_session(self.number, result.is_err());
            let error = match result {
                Ok(summary) => {
                    self.told.send(Told::Moved(self.number, summary)).ok();
                    continue;
                }
                Err(error) => error,
            };
            if interrupt::is_requested() {
                return Err(error);
            }
            if has_moved {
                (failures, pause) = (0, PAUSE_MIN);
            }
            failures += 1;
            self.told
                .send(Told::Failed(self.number, error.clone()))
                .ok();
            if !is_passing(&error) || failures > self.retries {
                return Err(error);
            }
            self.queue.pause(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
        Ok(())
    }

    /// Makes one copy of the units that the queue gives. Returns its result, and true if it moved anything.
    fn session(&self, session: u64) -> (Result<Summary, Error>, bool) {
        let naming = *self.naming.get().unwrap_or(&Naming::Contents);
        let (queue, number) = (Arc::clone(self.queue), self.number);
        let list = List::of_units(move || {
            let queue = Arc::clone(&queue);
            let units = std::iter::from_fn(move || queue.take(number, session));
            PathList::of_ranges(units.map(|unit| Ok(unit.listed)))
        });
        let mut has_moved = false;
        let mut observe = |event: Event| {
            has_moved |= self.note(&event);
            self.told.send(Told::Event(number, event)).ok();
        };
        let job = self.parts.stage(number, naming, list);
        let copied = job.and_then(|job| transfer::copy(&job, &mut Reporter::new(&mut observe)));
        (copied, has_moved)
    }

    /// Notes an event in the queue. Returns true if a unit was staged.
    fn note(&self, event: &Event) -> bool {
        let Event::Copy(event) = event else {
            return false;
        };
        if let CopyEvent::Moving(progress) = event {
            self.queue.progress(self.number, progress.done);
        } else if let CopyEvent::Done(staged) = event {
            let (path, _) = self.parts.source_name(&staged.path);
            let span = (staged.kept, staged.kept + staged.bytes);
            self.queue.staged(self.number, &path, span);
            if self.parts.is_split() {
                self.told.send(Told::Staged(self.number, path)).ok();
            }
            return true;
        } else if let CopyEvent::Failed(failed) = event {
            let (path, _) = self.parts.source_name(&failed.path);
            self.queue.give_up(self.number, &path);
        }
        false
    }
}
