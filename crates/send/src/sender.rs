//! Sender: threads and messages of the sending side.
//!
//! [`send`] explores the path, agrees on an offer, and starts the threads: the list, the comparison of held ranges, and
//! one for each lane. Then it handles messages of the receiver until the result:
//!
//! ```text
//! list -> queue of requested ranges -> lanes -> objects, then reports with digests
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_copy::budget::Budget;
use lighthaul_copy::error::Fault;
use lighthaul_copy::failures::Failures;
use lighthaul_copy::message::{CopyResult, Failure, Message, Progress, in_parts};
use lighthaul_copy::stall::Stall;
use lighthaul_copy::watch::{CopyEvent, Failed, Summary, Watcher, announce};
use lighthaul_files::inspect::Inspector;
use lighthaul_files::list::ListReceiver;
use lighthaul_files::listed::{ListWalk, Origin, SourceEntries};
use lighthaul_io::control::Control;
use lighthaul_io::drive::Share;
use lighthaul_io::host::clock::week_time;
use lighthaul_io::host::wait::pause;
use lighthaul_io::net::udp::Udp;
use lighthaul_io::store::read_ahead::ReadAhead;
use lighthaul_parts::backoff::RateBackoff;
use lighthaul_session::choose::{Choice, PathFacts, are_few, choose, is_little};
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::join::join;
use lighthaul_session::keepalive::Keepalive;
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::path::{Path, explore};
use lighthaul_session::protocol::{self, Protocol};
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

use super::delta::{DeltaSender, pays};
use super::held::HeldReader;
use super::lane::{Common, SendLane};
use super::scan::{Names, Scan};
use super::settings::Settings;
use super::source::FileSource;
use super::transfer::Transfer;

/// Rate on a path that carries datagrams but lost all of a train.
const RATE_UNKNOWN: Rate = Rate::from_mbps(10);
/// Interval of events about progress.
const TICK: Duration = Duration::from_millis(20);
/// Bounds of the wait for the receiver's answers to all entries, before connections are opened.
const LIST_WAIT_MIN: Duration = Duration::from_millis(10);
const LIST_WAIT_MAX: Duration = Duration::from_millis(500);

/// Sends the entries of `finds` to the peer, which has accepted the copy.
pub fn send(
    session: &Session,
    role: &Role<'_>,
    finds: SourceEntries,
    settings: Settings,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
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
    };
    let (naming, top) = (finds.naming, finds.top);
    let (found, list) = match finds.from {
        Origin::Local(found) => (found, None),
        Origin::Remote(base) => {
            let (list, names) = ListReceiver::new();
            let found = ListWalk::new(Arc::clone(&transfer.access), base, names, options.walk());
            (Box::new(found) as Box<_>, Some(list))
        }
    };
    let found = Inspector::new(
        (found, top.as_deref()),
        Arc::clone(&transfer.access),
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
    fn run<'s>(
        &mut self,
        scope: &'s thread::Scope<'s, 'a>,
        role: &Role<'_>,
    ) -> Result<Summary, Error> {
        let session = self.transfer.session;
        let mut path_rate = None;
        let (offer, path, joined) = self.agree(role, &mut path_rate)?;
        let started = session.clock.now();
        let start_up = started.since(self.begun);
        let rate = Rate::from_bps(offer.rate_bps).unwrap_or(Rate::UNLIMITED);
        announce(
            session,
            (protocol::asked(&self.transfer.options().protocol)?, &offer),
            (self.transfer.settings.plain, self.transfer.options().digest),
            start_up,
            self.watcher,
        );
        let trc = self.transfer.settings.vector_at(started)?;
        let share = Arc::new(Share::new(self.limited(rate)));
        let common = Common {
            transfer: self.transfer,
            share: Arc::clone(&share),
            trc,
            offer,
        };
        let lanes = offer::lanes_over(session, &offer, path, &joined)?;
        let (done, finished) = channel::<()>();
        let held = HeldReader {
            transfer: self.transfer,
        };
        let threads = &self.transfer.threads;
        scope.spawn(move || threads.run("comparison", || held.run()));
        let budget = self.delta(scope, path_rate);
        let (memory, open_max) = budget.of_lane(lanes.len());
        for (number, mut lane) in lanes.into_iter().enumerate() {
            // on a circuit, the vector determines the rate
            lane.share = common.trc.is_none().then(|| Arc::clone(&share));
            let (told, reports) = channel();
            let kind = self.transfer.options().digest;
            let from = (
                Arc::clone(&self.transfer.access),
                Arc::clone(&self.transfer.threads.work),
            );
            let source = FileSource::new(from, (kind, open_max), told);
            let store = ReadAhead::start(source, offer.packet_len, memory)?;
            let (threads, common, done) = (&self.transfer.threads, common.clone(), done.clone());
            scope.spawn(move || {
                let lane = SendLane {
                    common,
                    number: number as u8,
                    lane,
                    store,
                    reports,
                };
                threads.run("lane", || lane.run());
                drop(done);
            });
        }
        drop(done);
        let lanes_run = || {
            matches!(
                finished.try_recv(),
                Err(std::sync::mpsc::TryRecvError::Empty)
            )
        };
        let _alive = Keepalive::start(scope, session, self.transfer.threads.work.counter());
        let mut summary = self.watch(&share, rate, lanes_run)?;
        summary.elapsed = session.clock.now().since(self.begun);
        summary.moving = session.clock.now().since(started);
        Ok(summary)
    }

    /// Starts the thread of deltas. Returns the limits of everything else.
    fn delta<'s>(&self, scope: &'s thread::Scope<'s, 'a>, rate: Option<Rate>) -> Budget {
        let transfer = self.transfer;
        let budget = transfer.settings.budget;
        let rate = rate.map(|rate| self.limited(rate));
        let (blocks_max, rest) = if pays(transfer.options().delta, rate, transfer.session.rtt) {
            budget.with_deltas()
        } else {
            (0, budget)
        };
        let delta = DeltaSender {
            transfer,
            blocks_max,
        };
        scope.spawn(move || transfer.threads.run("delta", || delta.run()));
        rest
    }

    /// Explores the path, and agrees with the receiver on the protocol and its parameters.
    fn agree(
        &mut self,
        role: &Role<'_>,
        path_rate: &mut Option<Rate>,
    ) -> Result<(Offer, Path, Vec<Control>), Error> {
        let session = self.transfer.session;
        let asked = self.transfer.settings.asked()?;
        let trc = self.transfer.settings.vector()?;
        let lanes = offer::lanes(asked, trc.is_some());
        let mut path = explore(session, role, true, lanes)?;
        let peak = trc.and_then(|trc| trc.steps().iter().map(|step| step.rate).max());
        let mut rate = choose_rate(session, &mut path, peak.or(self.transfer.settings.rate))?;
        *path_rate = (rate != Rate::UNLIMITED).then_some(rate);
        let chosen = asked.is_none().then(|| self.choose(&path, rate));
        let protocol = chosen.as_ref().map(|choice| choice.protocol).or(asked);
        let protocol = protocol.unwrap_or_default();
        if !protocol.is_datagrams() {
            path.sockets.clear();
            rate = self.transfer.settings.rate.unwrap_or(Rate::UNLIMITED);
        }
        let options = self.transfer.options();
        let mut offer = Offer::new(session, (protocol, options.streams), &path, rate);
        let is_soon_there = match protocol {
            Protocol::Tcp => self.transfer.queue.bytes().is_some_and(is_little),
            Protocol::Ptcp if options.streams == 0 => self.await_bytes().is_some_and(are_few),
            Protocol::Ptcp
            | Protocol::Rbudp
            | Protocol::RbudpPlus
            | Protocol::Vbtp
            | Protocol::Sabul
            | Protocol::SabulSwift => false,
        };
        if is_soon_there || options.dry_run.is_some() {
            // opening further connections would take longer than they save
            offer.joins = 0;
        }
        session.say(&Message::Offer(offer))?;
        let joined = join(session, role, offer.joins, self.transfer.settings.plain)?;
        self.transfer
            .learned
            .store(offer::width(session, options.streams, &joined));
        if let Some(Choice { protocol, why }) = chosen {
            session.say(&Message::Chosen { why: why.clone() })?;
            (self.watcher)(CopyEvent::Chosen(protocol.to_string(), why));
        }
        Ok((offer, path, joined))
    }

    /// Returns the bytes to send, if they are known within the time that further connections take.
    fn await_bytes(&self) -> Option<u64> {
        let session = self.transfer.session;
        let wait = (session.rtt * 2).clamp(LIST_WAIT_MIN, LIST_WAIT_MAX);
        let until = session.clock.now() + wait;
        loop {
            let bytes = self.transfer.queue.bytes();
            if bytes.is_some() || session.clock.now() >= until {
                return bytes;
            }
            pause(LIST_WAIT_MIN / 10);
        }
    }

    /// Chooses the protocol for the path.
    fn choose(&self, path: &Path, rate: Rate) -> Choice {
        let sockets = &path.sockets;
        choose(&PathFacts {
            datagram_len: if sockets.is_empty() {
                0
            } else {
                path.datagram_len
            },
            rtt: self.transfer.session.rtt,
            rate: Some(rate),
            lost_ppm: path.lost_ppm,
            waited: path.waited,
            buffer_bytes: sockets.first().map_or(0, Udp::buffer_bytes),
            booked: !self.transfer.options().trc.is_empty(),
            shared: self.transfer.options().shared,
            bytes: self.transfer.queue.bytes(),
        })
    }

    /// Handles the messages of the receiver, until the result arrives.
    fn watch(
        &mut self,
        share: &Share,
        rate: Rate,
        lanes_run: impl Fn() -> bool,
    ) -> Result<Summary, Error> {
        let clock = self.transfer.session.clock;
        let mut backoff = RateBackoff::new(clock.now(), rate);
        let mut reduced = rate;
        let begun = clock.now();
        let mut progress = Progress::default();
        let mut sent = false;
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
            share.set(self.limited(reduced));
            if !sent && !lanes_run() {
                sent = true;
                self.transfer.threads.check()?;
                self.transfer.session.say(&Message::Sent)?;
            }
            let message = match self.transfer.session.hear_for(TICK) {
                Err(error) if error.code() == Code::TimedOut => {
                    let patience = self.transfer.options().stall_timeout();
                    if clock
                        .now()
                        .since(begun.max(self.transfer.session.heard_at()))
                        > patience
                    {
                        return Err(Fault::Silent("receiver", patience.as_secs()).into());
                    }
                    continue;
                }
                message => message?,
            };
            if let Message::Progress(now) = message {
                let dropped = now.buffer_drops > progress.buffer_drops;
                reduced = backoff.update(clock.now(), dropped).unwrap_or(reduced);
                self.take_progress(&now);
                progress = now;
            } else if let Message::Result(result) = message {
                self.await_answers()?;
                return self.conclude(result);
            } else {
                self.take(message)?;
            }
        }
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

    /// Returns a number that rises while packets leave, and with what the receiver has of what was
    /// listed.
    fn evidence(&self) -> u64 {
        let totals = self.transfer.queue.totals();
        let motion = self.transfer.monitor.progress(totals.wanted);
        let published = motion.published.min(totals.entries);
        [motion.sent, published, totals.settled]
            .into_iter()
            .fold(motion.done, u64::saturating_add)
    }

    /// Reports whether a circuit or a timetable may have the lanes wait.
    fn is_paced(&self) -> bool {
        !self.transfer.options().trc.is_empty() || self.transfer.settings.limit.is_some()
    }

    /// Returns the rate within the current limit of the timetable.
    fn limited(&self, rate: Rate) -> Rate {
        let limit = self.transfer.settings.limit.as_ref();
        let limit = limit.and_then(|limit| limit.rate_at(week_time()));
        limit.map_or(rate, |limit| rate.min(limit))
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
                    .confirm(entries, &self.transfer.access);
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
            | Message::Offer(_)
            | Message::Chosen { .. }
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
        let kept = self.transfer.removals.finish(&self.transfer.access);
        self.report_kept(kept)?;
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

/// Returns the rate that the user gave, or slightly less than the measured rate of the path.
fn choose_rate(session: &Session, path: &mut Path, asked: Option<Rate>) -> Result<Rate, Error> {
    if let Some(rate) = asked {
        return Ok(rate);
    }
    if path.sockets.is_empty() {
        return Ok(Rate::UNLIMITED);
    }
    let measured = path.measure(session)?;
    Ok(measured.map_or(RATE_UNKNOWN, |rate| rate.scaled(995, 1000)))
}
