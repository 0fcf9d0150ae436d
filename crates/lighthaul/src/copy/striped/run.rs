//! Striped copy, from its plan to its result.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, counted};
use lighthaul_copy::watch::{CopyEvent, CopyProgress, Summary};
use lighthaul_files::naming::Naming;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Error, caught};

use super::movers::{Mover, Told};
use super::parts::Parts;
use super::plan::{is_passing, plan, plan_split};
use super::work_queue::WorkQueue;
use crate::copy::attempts::added;
use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::retry;
use crate::event::Event;
use crate::fault::Fault;

/// Bytes that the last part of a copy may send again without a warning.
const AGAIN_MIN: u64 = 16 << 20;
/// Interval of checks while movers work.
const TICK: Duration = Duration::from_millis(50);

/// Makes the copy with all its hosts. A dry run needs one pair of hosts only.
pub(crate) fn run(job: &Job, reporter: &mut Reporter<'_>) -> Result<Summary, Error> {
    let parts = Parts::new(job)?;
    let clock = Clock::start();
    if job.request.options.dry_run.is_some() {
        return publish(&parts, &CopyProgress::default(), reporter);
    }
    let _alarm = job.request.stop_at.map(retry::stop_at).transpose()?;
    let copied = copy(job, &parts, (clock, reporter));
    if copied.is_err() && interrupt::is_requested() && retry::has_come(job.request.stop_at) {
        return Err(Fault::StopTime.into());
    }
    copied
}

/// Stages and publishes the files.
fn copy(
    job: &Job,
    parts: &Parts,
    (clock, reporter): (Clock, &mut Reporter<'_>),
) -> Result<Summary, Error> {
    let moved = stage(parts, job.request.retries, (clock, reporter))?;
    let mut summary = if parts.is_split() {
        publish_split(parts, &moved, reporter)?
    } else {
        publish(parts, &moved.progress, reporter)?
    };
    let again = summary.motion.done;
    if again > moved.progress.done / 10 && again > AGAIN_MIN {
        let text = "the last part of the copy sent much again: do all hosts see the same files?";
        reporter.warn(text.to_owned());
    }
    // movers have created these before the last part
    summary.unchanged = summary.unchanged.saturating_sub(moved.folders);
    summary.elapsed = clock.now().since(Instant::ZERO);
    if let Some(since) = moved.since {
        summary.moving = clock.now().since(since);
        summary.motion = added(summary.motion, &moved.progress);
        summary.motion.total += moved.progress.total;
    }
    Ok(summary)
}

/// Work of all movers.
struct Moved {
    /// Directories that did not exist before.
    folders: u64,
    /// Paths of the entries of each target, if each has files of its own.
    placed: Vec<Vec<Vec<u8>>>,
    /// Names of the entries.
    naming: Naming,
    /// Time of the first byte.
    since: Option<Instant>,
    progress: CopyProgress,
}

/// Makes all pairs of hosts stage the files.
fn stage(
    parts: &Parts,
    retries: u32,
    (clock, reporter): (Clock, &mut Reporter<'_>),
) -> Result<Moved, Error> {
    let queue = &Arc::new(WorkQueue::new(parts.pairs(), parts.is_split()));
    let naming = &OnceLock::new();
    thread::scope(|scope| {
        let _stop = StopOnDrop(queue);
        let (told, heard) = channel();
        let cancellation = Cancellation::current();
        let covered = cancellation.clone();
        let planning = thread::Builder::new().name("plan".into());
        let planned = planning.spawn_scoped(scope, move || {
            let result = covered.cover(|| {
                caught("plan", || {
                    let named = |names| {
                        naming.get_or_init(|| names);
                    };
                    if parts.is_split() {
                        Ok((0, plan_split(parts, queue, named)?))
                    } else {
                        Ok((plan(parts, queue, named)?, Vec::new()))
                    }
                })
            });
            match &result {
                Ok(_) => queue.close(),
                Err(_) => queue.stop(),
            }
            result
        });
        let planned = planned.map_err(Fault::Thread)?;
        let mut movers = Vec::new();
        for number in 0..parts.pairs() {
            let mover = Mover {
                number,
                parts,
                queue,
                naming,
                retries,
                told: told.clone(),
            };
            let covered = cancellation.clone();
            let thread = thread::Builder::new().name("mover".into());
            let run = move || covered.cover(|| caught("mover", || mover.run()));
            movers.push(thread.spawn_scoped(scope, run).map_err(Fault::Thread)?);
        }
        drop(told);
        let mut moved = follow(parts, &heard, (clock, reporter))?;
        interrupt::check()?;
        let ended = movers.into_iter().map(|mover| joined(mover.join()));
        let mut last = None;
        for result in ended {
            last = result.err().or(last);
        }
        let has_failed = !queue.is_done();
        queue.stop();
        let (folders, others) = joined(planned.join())?;
        moved.folders = folders;
        moved.placed[0].extend(others);
        moved.naming = *naming.get().unwrap_or(&Naming::Contents);
        match last {
            Some(error) if has_failed => Err(Fault::AllMoversFailed(error).into()),
            Some(_) | None => Ok(moved),
        }
    })
}

/// Forwards the events of all movers until they have ended.
fn follow(
    parts: &Parts,
    heard: &Receiver<Told>,
    (clock, reporter): (Clock, &mut Reporter<'_>),
) -> Result<Moved, Error> {
    let mut moved = Moved {
        folders: 0,
        placed: vec![Vec::new(); parts.targets()],
        naming: Naming::Contents,
        since: None,
        progress: CopyProgress::default(),
    };
    // sum of the sessions that have ended, and the progress of each present session
    let mut ended = CopyProgress::default();
    let mut present = vec![CopyProgress::default(); parts.pairs()];
    loop {
        let told = match heard.recv_timeout(TICK) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => {
                interrupt::check()?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match told {
            Told::Event(number, Event::Copy(CopyEvent::Moving(progress))) => {
                present[number] = progress;
                moved.since.get_or_insert_with(|| clock.now());
                let sum = present.iter().fold(ended, summed);
                moved.progress = sum;
                reporter.watch(CopyEvent::Moving(sum));
            }
            Told::Event(_, Event::Copy(CopyEvent::Started(start))) => {
                moved.since.get_or_insert_with(|| clock.now());
                if !reporter.has_started() {
                    reporter.watch(CopyEvent::Started(start));
                }
            }
            Told::Event(number, Event::Copy(CopyEvent::Warning(text))) => {
                reporter.warn(format!("{}: {text}", parts.name(number)));
            }
            // entries that fail here are copied or reported at the end
            Told::Event(..) => {}
            Told::Staged(number, path) => moved.placed[number % parts.targets()].push(path),
            Told::Moved(number, summary) => {
                ended = summed(ended, &summary.motion);
                present[number] = CopyProgress::default();
            }
            Told::Failed(number, error) => {
                ended = summed(ended, &present[number]);
                present[number] = CopyProgress::default();
                let name = parts.name(number);
                reporter.warn(format!("{name} failed: {error}; other hosts take its work"));
            }
        }
    }
    moved.progress = ended;
    Ok(moved)
}

/// Publishes the files through the first pair of hosts that answers.
fn publish(
    parts: &Parts,
    moved: &CopyProgress,
    reporter: &mut Reporter<'_>,
) -> Result<Summary, Error> {
    let mut observe = |event: Event| {
        if let Event::Copy(CopyEvent::Moving(progress)) = event {
            reporter.watch(CopyEvent::Moving(summed(*moved, &progress)));
        } else if let Event::Copy(event) = event {
            reporter.watch(event);
        } else {
            reporter.tell(event);
        }
    };
    let mut last = None;
    for number in 0..parts.pairs() {
        let mut job = parts.last(number);
        job.request.stop_at = None;
        if number + 1 < parts.pairs() {
            job.request.retries = 0;
        }
        match retry::run(&job, &mut Reporter::new(&mut observe)) {
            Err(error) if is_passing(&error) => {
                interrupt::check()?;
                last = Some(error);
            }
            result => return result,
        }
    }
    Err(last.unwrap_or_else(|| Fault::NoSource.into()))
}

/// Publishes the files of each target host at that host. If one fails, the others still publish theirs.
fn publish_split(
    parts: &Parts,
    moved: &Moved,
    reporter: &mut Reporter<'_>,
) -> Result<Summary, Error> {
    let mut whole = Summary::default();
    let mut failed = None;
    for (number, paths) in moved.placed.iter().enumerate() {
        if paths.is_empty() {
            continue;
        }
        let mut observe = |event: Event| {
            if !matches!(event, Event::Copy(CopyEvent::Moving(_))) {
                reporter.tell(event);
            }
        };
        let mut job = parts.last_of(number, moved.naming, paths)?;
        job.request.stop_at = None;
        match retry::run(&job, &mut Reporter::new(&mut observe)) {
            Ok(summary) => {
                whole.entries += summary.entries;
                whole.bytes += summary.bytes;
                whole.motion = summed(whole.motion, &summary.motion);
                whole.failures.extend(summary.failures);
            }
            Err(error) => {
                interrupt::check()?;
                let files = counted(paths.len() as u64, "entry", "entries");
                let name = parts.name(number);
                failed = Some(Fault::NotPlaced { name, files, error });
            }
        }
    }
    failed.map_or(Ok(whole), |fault| Err(fault.into()))
}

fn summed(one: CopyProgress, other: &CopyProgress) -> CopyProgress {
    let total = one.total + other.total;
    CopyProgress {
        total,
        ..added(one, other)
    }
}

/// Returns the result of a thread, whose panics are errors already.
fn joined<T>(result: thread::Result<Result<T, Error>>) -> Result<T, Error> {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Ends the movers, however the copy ends.
struct StopOnDrop<'a>(&'a WorkQueue);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
