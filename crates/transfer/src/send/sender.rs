//! The sending side of a transfer.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_files::inspect::Inspected;
use lighthaul_files::list::Heard;
use lighthaul_files::listed::{Finds, Listed, Origin};
use lighthaul_io::control::Control;
use lighthaul_io::drive::Share;
use lighthaul_io::host::clock::week_time;
use lighthaul_io::net::udp::Udp;
use lighthaul_io::store::read_ahead::ReadAhead;
use lighthaul_session::alive::Alive;
use lighthaul_session::choose::{Choice, Facts, choose, is_little};
use lighthaul_session::door::Door;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::join::join;
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::path::{Path, explore};
use lighthaul_session::protocol::{self, Protocol};
use lighthaul_session::session::Session;

use super::held::HeldReader;
use super::lane::{Common, SendLane};
use super::scan::{Names, Scan};
use super::settings::Settings;
use super::source::FileSource;
use super::transfer::Transfer;
use crate::ease::Ease;
use crate::failures::Failures;
use crate::message::{Message, Progress, Verdict};
use crate::stall::Stall;
use crate::watch::{Failed, Sight, Summary, Watcher, announce};

/// Used when a path carries datagrams but none of a train arrived.
const RATE_UNKNOWN: Rate = Rate::from_mbps(10);
/// How often an onlooker hears how far it is.
const TICK: Duration = Duration::from_millis(20);

/// Sends what `finds` has to the peer, which has agreed to take it.
pub fn send(
    session: &Session,
    door: &Door<'_>,
    finds: Finds,
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
        (Origin::There(_), _) => Names::Awaited,
        (Origin::Here(_), true) => Names::Listed,
        (Origin::Here(_), false) => Names::Walked,
    };
    let scan = Scan {
        transfer: &transfer,
        names,
    };
    let (named, top) = (finds.named, finds.top);
    let (found, list) = match finds.from {
        Origin::Here(found) => (found, None),
        Origin::There(base) => {
            let (list, names) = Heard::new();
            let rules = options.rules.clone();
            let found = Listed::new(Arc::clone(&transfer.ground), base, names, rules);
            (Box::new(found) as Box<_>, Some(list))
        }
    };
    let found = Inspected::new(
        (found, top.as_deref()),
        Arc::clone(&transfer.ground),
        options,
    );
    let found = Box::new(found);
    let (crew, board) = (&transfer.crew, &transfer.board);
    let result = thread::scope(|scope| {
        scope.spawn(|| crew.run("scan", || scan.tell(named, found)));
        scope.spawn(|| crew.run("answers", || scan.hear(list)));
        let result = caught("sender", || sending.run(scope, door));
        if let Err(error) = &result {
            crew.fail(error.clone());
        }
        board.close();
        result
    });
    result.map_err(|error| session.blame(crew.take_failure().unwrap_or(error)))
}

/// A transfer on the sending side.
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
        door: &Door<'_>,
    ) -> Result<Summary, Error> {
        let session = self.transfer.session;
        let (offer, path, joined) = self.agree(door)?;
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
        let crew = &self.transfer.crew;
        scope.spawn(move || crew.run("comparison", || held.run()));
        let budget = self.transfer.settings.budget;
        let (memory, open_max) = budget.of_lane(lanes.len());
        for (number, mut lane) in lanes.into_iter().enumerate() {
            // a circuit's rate is its vector's
            lane.share = common.trc.is_none().then(|| Arc::clone(&share));
            let (told, reports) = channel();
            let kind = self.transfer.options().digest;
            let from = (
                Arc::clone(&self.transfer.ground),
                Arc::clone(&self.transfer.crew.work),
            );
            let source = FileSource::new(from, (kind, open_max), told);
            let store = ReadAhead::start(source, offer.packet_len, memory)?;
            let (crew, common, done) = (&self.transfer.crew, common.clone(), done.clone());
            scope.spawn(move || {
                let lane = SendLane {
                    common,
                    number: number as u8,
                    lane,
                    store,
                    reports,
                };
                crew.run("lane", || lane.run());
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
        let _alive = Alive::say(scope, session, self.transfer.crew.work.counter());
        let mut summary = self.watch(&share, rate, lanes_run)?;
        summary.elapsed = session.clock.now().since(self.begun);
        summary.moving = session.clock.now().since(started);
        Ok(summary)
    }

    /// Looks at the path, and agrees with the receiver on what moves the data, and how.
    fn agree(&mut self, door: &Door<'_>) -> Result<(Offer, Path, Vec<Control>), Error> {
        let session = self.transfer.session;
        let asked = self.transfer.settings.asked()?;
        let trc = self.transfer.settings.vector()?;
        let lanes = offer::lanes(asked, trc.is_some());
        let mut path = explore(session, door, true, lanes)?;
        let peak = trc.and_then(|trc| trc.steps().iter().map(|step| step.rate).max());
        let mut rate = choose_rate(session, &mut path, peak.or(self.transfer.settings.rate))?;
        let chosen = asked.is_none().then(|| self.choose(&path, rate));
        let protocol = chosen.as_ref().map(|choice| choice.protocol).or(asked);
        let protocol = protocol.unwrap_or_default();
        if !protocol.is_datagrams() {
            path.sockets.clear();
            rate = self.transfer.settings.rate.unwrap_or(Rate::UNLIMITED);
        }
        let options = self.transfer.options();
        let mut offer = Offer::new(session, (protocol, options.streams), &path, rate);
        let is_soon_there =
            protocol == Protocol::Tcp && self.transfer.queue.bytes().is_some_and(is_little);
        if is_soon_there || options.dry_run.is_some() {
            // further connections would take longer than they spare
            offer.joins = 0;
        }
        session.say(&Message::Offer(offer))?;
        let joined = join(session, door, offer.joins, self.transfer.settings.plain)?;
        self.transfer
            .baton
            .pass(offer::width(session, options.streams, &joined));
        if let Some(Choice { protocol, why }) = chosen {
            session.say(&Message::Chosen { why: why.clone() })?;
            (self.watcher)(Sight::Chosen(protocol.to_string(), why));
        }
        Ok((offer, path, joined))
    }

    /// What suits the path.
    fn choose(&self, path: &Path, rate: Rate) -> Choice {
        let sockets = &path.sockets;
        choose(&Facts {
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

    /// Hears from the receiver until it gives its verdict.
    fn watch(
        &mut self,
        share: &Share,
        rate: Rate,
        lanes_run: impl Fn() -> bool,
    ) -> Result<Summary, Error> {
        let clock = self.transfer.session.clock;
        let mut ease = Ease::new(clock.now(), rate);
        let mut eased = rate;
        let begun = clock.now();
        let mut progress = Progress::default();
        let mut sent = false;
        let work = &self.transfer.crew.work;
        let mut stall = Stall::new(begun, self.transfer.options().stall);
        let mut best = 0;
        loop {
            self.transfer.crew.check()?;
            self.show();
            self.failures.bear()?;
            let now = self.evidence();
            if now > best {
                best = now;
                work.advance();
            } else if !sent && self.is_paced() {
                work.wait();
            }
            stall.check(clock.now(), work, self.transfer.session.told_work())?;
            share.set(self.limited(eased));
            if !sent && !lanes_run() {
                sent = true;
                self.transfer.crew.check()?;
                self.transfer.session.say(&Message::Sent)?;
            }
            let message = match self.transfer.session.hear_for(TICK) {
                Err(error) if error.code == Code::TimedOut => {
                    let patience = self.transfer.options().patience();
                    if clock
                        .now()
                        .since(begun.max(self.transfer.session.heard_at()))
                        > patience
                    {
                        let patience = patience.as_secs();
                        let text = format!("nothing was heard of the receiver for {patience} s");
                        return Err(Error::new(Code::TimedOut, text));
                    }
                    continue;
                }
                message => message?,
            };
            if let Message::Progress(now) = message {
                let dropped = now.buffer_drops > progress.buffer_drops;
                eased = ease.hear(clock.now(), dropped).unwrap_or(eased);
                self.take_progress(&now);
                progress = now;
            } else if let Message::Verdict(verdict) = message {
                self.hear_out()?;
                return self.conclude(verdict);
            } else {
                self.take(message)?;
            }
        }
    }

    /// Waits until the receiver has been heard of every entry: it said so before its verdict, but on another
    /// stream, which another thread hears.
    fn hear_out(&mut self) -> Result<(), Error> {
        let clock = self.transfer.session.clock;
        let patience = self.transfer.options().patience();
        let mut judged = (clock.now(), 0);
        while !self.transfer.queue.is_judged() {
            // that thread goes on when there is room for what it has to show
            self.show();
            let now = self.transfer.queue.judged(&self.transfer.crew)?;
            if now != judged.1 {
                judged = (clock.now(), now);
            }
            if clock.now().since(judged.0) > patience {
                return Err(lie());
            }
        }
        Ok(())
    }

    /// A number that rises while packets leave, and with what the receiver has of what was listed.
    fn evidence(&self) -> u64 {
        let totals = self.transfer.queue.totals();
        let motion = self.transfer.board.motion(totals.wanted);
        let published = motion.published.min(totals.entries);
        [motion.sent, published, totals.settled]
            .into_iter()
            .fold(motion.done, u64::saturating_add)
    }

    /// Whether a circuit or a timetable may have the lanes wait.
    fn is_paced(&self) -> bool {
        !self.transfer.options().trc.is_empty() || self.transfer.settings.limit.is_some()
    }

    /// The part of `rate` that the timetable allows now.
    fn limited(&self, rate: Rate) -> Rate {
        let limit = self.transfer.settings.limit.as_ref();
        let limit = limit.and_then(|limit| limit.rate_at(week_time()));
        limit.map_or(rate, |limit| rate.min(limit))
    }

    fn take(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Warning { text } => {
                self.transfer.board.show(Sight::Warning(text));
                Ok(())
            }
            Message::Hashed(hashed) if hashed.is_sound() => {
                self.transfer.crew.work.advance();
                self.transfer.board.show(Sight::Hashed(hashed));
                Ok(())
            }
            Message::Settled { entries, failures } => {
                self.transfer
                    .queue
                    .settle(entries, failures.iter().map(|failure| failure.number))?;
                if failures.len() as u64 > entries {
                    return Err(Error::new(
                        Code::Protocol,
                        "the peer names more failures than entries",
                    ));
                }
                for failure in failures {
                    self.failures.push(Failed::from(failure));
                }
                Ok(())
            }
            Message::Hashed(_)
            | Message::Offer(_)
            | Message::Chosen { .. }
            | Message::Object(_)
            | Message::Reports { .. }
            | Message::Held(_)
            | Message::Sent
            | Message::Progress(_)
            | Message::Verdict(_) => Err(Error::new(Code::Protocol, "the peer spoke out of turn")),
        }
    }

    fn take_progress(&self, progress: &Progress) {
        // the receiver knows how much arrived of all lanes together
        let first = self.transfer.board.lane(0);
        first.bytes.store(progress.bytes, Relaxed);
        first.buffer_drops.store(progress.buffer_drops, Relaxed);
        first.foreign.store(progress.foreign, Relaxed);
        self.transfer
            .board
            .published
            .store(progress.published, Relaxed);
        for (lane, seen) in self.transfer.board.lanes().iter().zip(&progress.datagrams) {
            lane.datagrams.store(*seen, Relaxed);
        }
    }

    fn show(&mut self) {
        // whoever looks may take long, as with a pager
        let _step = self.transfer.crew.work.begin();
        for sight in self.transfer.board.take_sights() {
            if let Sight::Failed(failed) = &sight {
                self.failures.push(failed.clone());
            }
            (self.watcher)(sight);
        }
        let motion = self
            .transfer
            .board
            .motion(self.transfer.queue.totals().wanted);
        if motion.sent > 0 {
            (self.watcher)(Sight::Moving(motion));
        }
    }

    fn conclude(&mut self, verdict: Verdict) -> Result<Summary, Error> {
        let totals = self.transfer.queue.totals();
        let fits = verdict.entries.max(verdict.unchanged) <= totals.entries
            && verdict.bytes <= totals.bytes;
        if totals.settled != totals.entries || !fits {
            return Err(lie());
        }
        self.show();
        let motion = self.transfer.board.motion(totals.wanted);
        Ok(Summary {
            entries: verdict.entries,
            bytes: verdict.bytes,
            unchanged: verdict.unchanged,
            motion,
            failures: self.failures.finish(),
            ..Summary::default()
        })
    }
}

fn lie() -> Error {
    let text = "the peer's verdict is about files that were not sent";
    Error::new(Code::Protocol, text)
}

/// The rate asked for, else a little less than what the path was seen to carry.
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
