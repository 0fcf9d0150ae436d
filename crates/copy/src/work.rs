//! Work of one side of a transfer, by which both sides tell a busy side from an idle side.
//!
//! A step is finished at once ([`Work::advance`]), or may take long, as the hash of a large file does
//! ([`Work::begin`]). A wait that was planned, such as one for a circuit, is named by [`Work::wait`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Work of one side, counted by its threads.
#[derive(Debug, Default)]
pub struct Work {
    done: AtomicU64,
    waits: AtomicU64,
    begun: AtomicU64,
    /// Numbers of the steps in progress, with their threads.
    open: Mutex<BTreeMap<u64, ThreadId>>,
}

/// Wait of a thread for the peer, during which its steps do not count; ends on drop.
#[derive(Debug)]
pub struct Pause<'a> {
    work: &'a Work,
    steps: Vec<u64>,
}

/// Step in progress; ends on drop.
#[derive(Debug)]
pub struct Step<'a> {
    work: &'a Work,
    number: u64,
}

/// Finds whether work was done from one look to the next.
#[derive(Debug, Default)]
pub struct Sampler {
    done: u64,
    waits: u64,
    open: BTreeSet<u64>,
}

/// Result of a sample of a side's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A step was finished, or the same step has been in progress since the last check.
    Works,
    /// The side only waits, as planned.
    Waits,
    /// The side has no step in progress.
    Idle,
}

impl Work {
    /// Counts a finished step.
    pub fn advance(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    /// Counts a moment of a planned wait.
    pub fn wait(&self) {
        self.waits.fetch_add(1, Relaxed);
    }

    /// Begins a step of the calling thread that may take long. Where it waits for the peer, it must [`Work::pause`].
    pub fn begin(&self) -> Step<'_> {
        let number = self.begun.fetch_add(1, Relaxed);
        self.lock().insert(number, thread::current().id());
        Step { work: self, number }
    }

    /// Begins a wait of the calling thread for the peer.
    pub fn pause(&self) -> Pause<'_> {
        let here = thread::current().id();
        let mut open = self.lock();
        let steps: Vec<u64> = open
            .extract_if(.., |_, thread| *thread == here)
            .map(|(number, _)| number)
            .collect();
        drop(open);
        Pause { work: self, steps }
    }

    /// Returns a counter for the peer, which rises with each check that finds this side at work.
    pub fn counter(self: &Arc<Self>) -> impl FnMut() -> u64 + Send + use<> {
        let work = Arc::clone(self);
        let (mut sampler, mut count) = (Sampler::default(), 0_u64);
        move || {
            count += u64::from(sampler.look(&work) != Activity::Idle);
            count
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, ThreadId>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let here = thread::current().id();
        let steps = self.steps.drain(..).map(|number| (number, here));
        self.work.lock().extend(steps);
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.work.lock().remove(&self.number);
    }
}

impl Sampler {
    /// Looks at the work done since the last look.
    pub fn look(&mut self, work: &Work) -> Activity {
        let open: BTreeSet<u64> = work.lock().keys().copied().collect();
        let lasts = open.intersection(&self.open).next().is_some();
        self.open = open;
        let done = work.done.load(Relaxed);
        let waits = work.waits.load(Relaxed);
        let has_done = std::mem::replace(&mut self.done, done) != done;
        let has_waited = std::mem::replace(&mut self.waits, waits) != waits;
        match (has_done || lasts, has_waited) {
            (true, _) => Activity::Works,
            (false, true) => Activity::Waits,
            (false, false) => Activity::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_and_running_steps_are_work() {
        let (work, mut sampler) = (Work::default(), Sampler::default());
        assert_eq!(sampler.look(&work), Activity::Idle);
        work.advance();
        assert_eq!(sampler.look(&work), Activity::Works);
        assert_eq!(sampler.look(&work), Activity::Idle);
        // a step counts once it lasts, since threads that idle take short ones
        let step = work.begin();
        assert_eq!(sampler.look(&work), Activity::Idle);
        assert_eq!(sampler.look(&work), Activity::Works);
        drop(step);
        let _next = work.begin();
        assert_eq!(sampler.look(&work), Activity::Idle);
    }

    #[test]
    fn step_that_waits_for_the_peer_is_not_work() {
        let (work, mut sampler) = (Work::default(), Sampler::default());
        let _step = work.begin();
        let pause = work.pause();
        thread::scope(|scope| {
            // a step of another thread counts
            let other = scope.spawn(|| work.begin());
            let other = other.join().unwrap();
            sampler.look(&work);
            assert_eq!(sampler.look(&work), Activity::Works);
            drop(other);
        });
        sampler.look(&work);
        assert_eq!(sampler.look(&work), Activity::Idle);
        drop(pause);
        sampler.look(&work);
        assert_eq!(sampler.look(&work), Activity::Works);
    }

    #[test]
    fn planned_wait_is_not_work() {
        let (work, mut sampler) = (Arc::new(Work::default()), Sampler::default());
        let mut counter = work.counter();
        work.wait();
        assert_eq!(sampler.look(&work), Activity::Waits);
        assert_eq!([counter(), counter()], [1, 1]);
        work.advance();
        assert_eq!(counter(), 2);
    }
}
