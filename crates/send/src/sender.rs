//! Sender: threads and messages of the sending side.
//!
//! [`send`] starts the threads: the list, its answers, the comparison of held ranges, and the set-up of the path, which
//! starts one for each lane. Then it handles messages of the receiver until the result:
//!
//! ```text
//! list -> queue of requested ranges -> lanes -> objects, then reports with digests
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::error::Fault;
use lighthaul_copy::failures::Failures;
use lighthaul_copy::message::{CopyResult, Failure, Message, Progress, in_parts};
use lighthaul_copy::stall::Stall;
use lighthaul_copy::watch::{CopyEvent, Failed, Summary, Watcher};
use lighthaul_files::inspect::Inspector;
use lighthaul_files::list::ListReceiver;
use lighthaul_files::listed::{Origin, SourceEntries};
use lighthaul_files::options::{Striped, StripedPart};
use lighthaul_parts::disk_rate::DiskFacts;
use lighthaul_parts::host_rate::HostFacts;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::halt::HaltOnDrop;
use lighthaul_session::keepalive::Keepalive;
use lighthaul_session::known_path::{KnownPath, PathEnds};
use lighthaul_session::machine::Learned;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

use super::held::HeldReader;
use super::path_setup::PathSetup;
use super::rate_control::RateControl;
use super::removals::FileClock;
use super::scan::{Names, Scan};
use super::settings::Settings;
use super::switch_control::SwitchControl;
use super::transfer::Transfer;

/// Minimum time that the peer has for its first message.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of events about progress.
const TICK: Duration = Duration::from_millis(20);

/// Sends the entries of `finds` to the peer, which has accepted the copy.
pub fn send(
    session: &Session,
    role: Role,
    finds: SourceEntries,
    settings: Settings,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    settings.options.check()?;
    let transfer = Transfer::new(session, &finds, settings)?;
    let options = &transfer.settings.options;
    let mut sending = Sending {
        transfer: &transfer,
        watcher,
        begun: session.clock.now(),
        failures: Failures::default(),
    };
    let names = match (&finds.from, options.listed) {
        (Origin::Remote(_), _) => Names::Awaited,
        (Origin::Local(_), true) => Names::Listed,
        (Origin::Local(_), false) => Names::Walked,
    };
    let scan = Scan {
        transfer: &transfer,
        names,
        file_clock: FileClock::default(),
    };
    let naming = match options.striped {
        // entries have the same names in all parts of a copy
        Some(Striped {
            part:
                StripedPart::Stage { naming, .. }
                | StripedPart::Publish {
                    naming: Some(naming),
                },
            ..
        }) => naming,
        Some(_) | None => finds.naming,
    };
    let top = finds.top;
    let (found, list) = match finds.from {
        Origin::Local(found) => (found, None),
        Origin::Remote(walk) => {
            let (list, names) = ListReceiver::new();
            (walk(names), Some(list))
        }
    };
    let found = Inspector::new(
        (found, top.as_deref()),
        Arc::clone(&transfer.sources.access),
        options,
    );
    let found = Box::new(found);
    let (threads, monitor) = (&transfer.threads, &transfer.monitor);
    let result = thread::scope(|scope| {
        scope.spawn(|| threads.run("scan", || scan.send_list(naming, found)));
        scope.spawn(|| threads.run("answers", || scan.receive_answers(list)));
        let result = caught("sender", || sending.run(scope, role));
        if let Err(error) = &result {
            threads.fail(error.clone());
        }
        monitor.close();
        result
    });
    result.map_err(|error| session.blame(threads.take_failure().unwrap_or(error)))
}

/// State of a copy on the sending side.
struct Sending<'a, 'w> {
    transfer: &'a Transfer<'a>,
    watcher: Watcher<'w>,
    begun: Instant,
    failures: Failures,
}

impl<'a> Sending<'a, '_> {
    fn run<'s>(&mut self, scope: &'s thread::Scope<'s, 'a>, role: Role) -> Result<Summary, Error> {
        let transfer = self.transfer;
        let (session, threads) = (transfer.session, &transfer.threads);
        // a request that is not possible fails before anything is sent
        transfer.settings.asked()?;
        transfer.settings.vector()?;
        let held = HeldReader { transfer };
        scope.spawn(move || threads.run("comparison", || held.run()));
        let rate = Arc::new(RateControl::new());
        let course = Arc::new(SwitchControl::default());
        let end = HaltOnDrop::new(Fault::Stopped.into());
        let setup = PathSetup {
            transfer,
            rate: Arc::clone(&rate),
            course: Arc::clone(&course),
            halt: end.halt(),
            begun: self.begun,
        };
        let (done, finished) = channel::<()>();
        scope.spawn(move || threads.run("path", || setup.run(scope, &role, &done)));
        let lanes_run = || {
            matches!(
                finished.try_recv(),
                Err(std::sync::mpsc::TryRecvError::Empty)
            )
        };
        let _alive = Keepalive::start(scope, session, threads.work.counter());
        let mut summary = self.watch(&rate, &course, lanes_run)?;
        self.keep_path(&rate);
        let now = session.clock.now();
        summary.elapsed = now.since(self.begun);
        summary.moving = now.since(rate.started().unwrap_or(self.begun));
        Ok(summary)
    }

    /// Stores the rate of the path for later copies: the measured rate, reduced by losses, or a higher rate that was
    /// found.
    fn keep_path(&self, rate: &RateControl) {
        let Transfer { session, path, .. } = self.transfer;
        let memory = self.transfer.settings.known.as_deref();
        if let Some((memory, path)) = memory.zip(path.get()) {
            let found = rate.found().unwrap_or(path.rate);
            let kept = match self.transfer.learned.load() {
                // without a brake, a start that continued beyond a remembered rate has not ended
                Learned::Path(memory) if memory.has_started || memory.rate > path.rate => {
                    let (carried, are_others) = memory.carried();
                    path.after(carried, are_others)
                }
                Learned::Nothing
                | Learned::Width(_)
                | Learned::Path(_)
                | Learned::Socket(_)
                | Learned::Room(_) => KnownPath {
                    rate: found,
                    ..*path
                },
            };
            memory.keep(PathEnds::of(session), kept);
        }
    }

    /// Handles the messages of the receiver, until the result arrives.
    fn watch(
        &mut self,
        rate: &RateControl,
        course: &SwitchControl,
        lanes_run: impl Fn() -> bool,
    ) -> Result<Summary, Error> {
        let clock = self.transfer.session.clock;
        let begun = clock.now();
        let mut sent = false;
        let mut uses_circuit = !self.transfer.options().trc.is_empty();
        let work = &self.transfer.threads.work;
        let mut stall = Stall::new(begun, self.transfer.options().stall);
        let mut best = 0;
        loop {
            self.transfer.threads.check()?;
            self.show();
            self.failures.check()?;
            let now = self.evidence();
            if now > best {
                best = now;
                work.advance();
            } else if !sent && self.is_paced() {
                work.wait();
            }
            stall.check(clock.now(), work, self.transfer.session.told_work())?;
            self.transfer.explain(rate.limit(&self.transfer.settings));
            if uses_circuit && self.transfer.queue.is_sent() {
                uses_circuit = false;
                self.transfer.session.say(&Message::CircuitReleased)?;
                (self.watcher)(CopyEvent::CircuitReleased);
            }
            if !sent && !lanes_run() {
                sent = true;
                self.transfer.threads.check()?;
                self.transfer.session.say(&Message::Sent)?;
            }
            let message = match self.transfer.session.hear_for(TICK) {
                Err(error) if error.code() == Code::TimedOut => {
                    let heard_at = self.transfer.session.heard_at();
                    let mut patience = self.transfer.options().stall_timeout();
                    if heard_at == Instant::ZERO {
                        // a daemon may wait for the end of an earlier attempt
                        patience = patience.max(ADMISSION_TIMEOUT);
                    }
                    if clock.now().since(begun.max(heard_at)) > patience {
                        return Err(Fault::Silent("receiver", patience.as_secs()).into());
                    }
                    continue;
                }
                message => message?,
            };
            if let Message::Progress(now) = message {
                let settings = &self.transfer.settings;
                let at = clock.now();
                self.take_progress(&now);
                let counts = self.transfer.monitor.packets();
                // the receiver reports the sums of all lanes
                let lanes = self.transfer.monitor.lanes().len().max(1) as u64;
                let facts = HostFacts {
                    arrived: counts.1,
                    dropped: now.buffer_drops,
                    run_delay: Duration::from_nanos(now.run_delay / lanes),
                };
                self.transfer.explain(rate.handle_host(at, facts, settings));
                self.transfer
                    .explain(rate.handle_arrivals(at, counts, settings));
                self.adapt_to_disks(at, &now, rate);
                course.update(at, &now, self.transfer, rate);
            } else if let Message::Result(result) = message {
                self.await_answers()?;
                if uses_circuit {
                    (self.watcher)(CopyEvent::CircuitReleased);
                }
                return self.conclude(result);
            } else {
                self.take(message)?;
            }
        }
    }

    /// Adapts the rate and the lanes to the disks of both hosts.
    fn adapt_to_disks(&self, at: Instant, progress: &Progress, rate: &RateControl) {
        let Transfer {
            monitor, settings, ..
        } = self.transfer;
        let motion = monitor.progress(0);
        let facts = DiskFacts {
            arrived: monitor.packets().1,
            lane_time: Duration::from_nanos(motion.object_time),
            source_wait: Duration::from_nanos(motion.source_wait),
            target_wait: Duration::from_nanos(progress.disk_wait),
            backlog_bytes: progress.disk_backlog,
        };
        let changed = rate.handle_disks(at, facts, settings);
        self.transfer.explain(changed);
    }

    /// Waits until the receiver's answers to all entries were handled. They precede the result, but
    /// on another stream, which another thread reads.
    fn await_answers(&mut self) -> Result<(), Error> {
        let clock = self.transfer.session.clock;
        let patience = self.transfer.options().stall_timeout();
        let mut answered = (clock.now(), 0);
        while !self.transfer.queue.are_entries_answered() {
            // that thread continues when its events are taken
            self.show();
            let now = self.transfer.queue.answered(&self.transfer.threads)?;
            if now != answered.1 {
                answered = (clock.now(), now);
            }
            if clock.now().since(answered.0) > patience {
                return Err(wrong_result());
            }
        }
        Ok(())
    }

    /// Returns a number that rises while packets leave and while the receiver settles listed entries.
    fn evidence(&self) -> u64 {
        let totals = self.transfer.queue.totals();
        let motion = self.transfer.monitor.progress(totals.wanted);
        let published = motion.published.min(totals.entries);
        [motion.sent, published, totals.settled]
            .into_iter()
            .fold(motion.done, u64::saturating_add)
    }

    /// Reports whether a circuit or a timetable may delay the lanes.
    fn is_paced(&self) -> bool {
        !self.transfer.options().trc.is_empty() || self.transfer.settings.limit.is_some()
    }

    fn take(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Warning { text } => {
                self.transfer.monitor.show(CopyEvent::Warning(text));
                Ok(())
            }
            Message::Hashed(hashed) if hashed.is_valid() => {
                self.transfer.threads.work.advance();
                self.transfer.monitor.show(CopyEvent::Hashed(hashed));
                Ok(())
            }
            Message::Settled { entries, failures } => {
                self.transfer
                    .queue
                    .settle(entries, failures.iter().map(|failure| failure.number))?;
                if failures.len() as u64 > entries {
                    return Err(PeerFault::Invalid("more failures than entries").into());
                }
                for failure in failures {
                    self.failures.push(Failed::from(failure));
                }
                Ok(())
            }
            Message::Placed { entries } => {
                self.transfer.threads.work.advance();
                let kept = self
                    .transfer
                    .removals
                    .confirm(entries, &self.transfer.sources.access);
                self.report_kept(kept)
            }
            Message::NotRemoved { failures } => {
                for failure in failures {
                    self.failures.push(Failed::from(failure));
                }
                Ok(())
            }
            Message::Done { entries } => {
                for planned in entries {
                    (self.watcher)(CopyEvent::Done(planned));
                }
                Ok(())
            }
            Message::Hashed(_)
            | Message::SourceKept { .. }
            | Message::Explore
            | Message::Offer(_)
            | Message::Chosen { .. }
            | Message::CircuitReleased
            | Message::Changed(_)
            | Message::Object(_)
            | Message::Reports { .. }
            | Message::Held(_)
            | Message::RequestSums(_)
            | Message::Delta(_)
            | Message::Sent
            | Message::Progress(_)
            | Message::Result(_) => Err(PeerFault::Unexpected("the next message of a copy").into()),
        }
    }

    /// Reports files that were not removed, to the receiver too.
    fn report_kept(&mut self, kept: Vec<Failure>) -> Result<(), Error> {
        for failure in &kept {
            self.failures.push(Failed::from(failure.clone()));
        }
        let session = self.transfer.session;
        in_parts(kept).try_for_each(|failures| session.say(&Message::SourceKept { failures }))
    }

    fn take_progress(&self, progress: &Progress) {
        // the receiver reports the sum of all lanes
        let first = self.transfer.monitor.lane(0);
        first.bytes.store(progress.bytes, Relaxed);
        first.buffer_drops.store(progress.buffer_drops, Relaxed);
        first.foreign.store(progress.foreign, Relaxed);
        self.transfer
            .monitor
            .published
            .store(progress.published, Relaxed);
        for (lane, seen) in self
            .transfer
            .monitor
            .lanes()
            .iter()
            .zip(&progress.datagrams)
        {
            lane.datagrams.store(*seen, Relaxed);
        }
    }

    fn show(&mut self) {
        // the observer may be slow, like a user with a pager
        let _step = self.transfer.threads.work.begin();
        for event in self.transfer.monitor.take_events() {
            if let CopyEvent::Failed(failed) = &event {
                self.failures.push(failed.clone());
            }
            (self.watcher)(event);
        }
        let motion = self
            .transfer
            .monitor
            .progress(self.transfer.queue.totals().wanted);
        if motion.sent > 0 {
            (self.watcher)(CopyEvent::Moving(motion));
            (self.watcher)(CopyEvent::Current(self.transfer.monitor.current()));
        }
    }

    fn conclude(&mut self, result: CopyResult) -> Result<Summary, Error> {
        let totals = self.transfer.queue.totals();
        let fits =
            result.entries.max(result.unchanged) <= totals.entries && result.bytes <= totals.bytes;
        if totals.settled != totals.entries || !fits {
            return Err(wrong_result());
        }
        let kept = self.transfer.removals.finish(&self.transfer.sources.access);
        self.report_kept(kept)?;
        let Settings { plain, options, .. } = &self.transfer.settings;
        let start_up = self.transfer.session.clock.now().since(self.begun);
        let protection = (*plain, options.digest);
        let monitor = &self.transfer.monitor;
        monitor.announce_list(self.transfer.session, protection, start_up);
        self.show();
        let motion = self.transfer.monitor.progress(totals.wanted);
        Ok(Summary {
            entries: result.entries,
            bytes: result.bytes,
            unchanged: result.unchanged,
            motion,
            failures: self.failures.finish(),
            ..Summary::default()
        })
    }
}

fn wrong_result() -> Error {
    PeerFault::Invalid("a result that does not match the list").into()
}
