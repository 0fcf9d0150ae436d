//! The sending side of a transfer.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use lighthaul_base::trc::TrcError;
use lighthaul_base::{Instant, Rate, Timetable, Trc};
use lighthaul_files::inspect::Inspected;
use lighthaul_files::list::Heard;
use lighthaul_files::listed::{Finds, Listed, Origin};
use lighthaul_files::options::Options;
use lighthaul_io::control::Control;
use lighthaul_io::drive::Share;
use lighthaul_io::fs::ground::Ground;
use lighthaul_io::host::clock::week_time;
use lighthaul_io::net::udp::Udp;
use lighthaul_io::store::read_ahead::ReadAhead;
use lighthaul_session::alive::Alive;
use lighthaul_session::choose::{Choice, Facts, choose, is_little};
use lighthaul_session::door::Door;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::join::join;
use lighthaul_session::machine::Baton;
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::path::{Path, explore};
use lighthaul_session::protocol::{self, Protocol};
use lighthaul_session::session::Session;

use super::held::HeldReader;
use super::lane::{Common, SendLane};
use super::queue::Queue;
use super::scan::Scan;
use super::source::FileSource;
use crate::board::Board;
use crate::budget::Budget;
use crate::crew::Crew;
use crate::ease::Ease;
use crate::failures::Failures;
use crate::message::{LIST, Message, Progress, Verdict};
use crate::vector;
use crate::watch::{Failed, Sight, Summary, Watcher, announce};

/// Used when a path carries datagrams but none of a train arrived.
const RATE_UNKNOWN: Rate = Rate::from_mbps(10);
/// How often an onlooker hears how far it is.
const TICK: Duration = Duration::from_millis(20);

/// How to send.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Datagrams are not encrypted.
    pub plain: bool,
    /// The rate on the wire; measured if nobody says.
    pub rate: Option<Rate>,
    /// When that is limited, and how.
    pub limit: Option<Timetable>,
    /// How to copy.
    pub options: Options,
    /// When they were said, by the session's clock.
    pub said: Instant,
    /// The names of the protocols that the peer has.
    pub theirs: Vec<String>,
    /// Limits of its memory and open files.
    pub budget: Budget,
}

impl Settings {
    /// What is to move the data, which both sides have; nothing if the path is to decide.
    fn asked(&self) -> Result<Option<Protocol>, Error> {
        let Some(asked) = protocol::asked(&self.options.protocol)? else {
            return Ok(None);
        };
        if self.theirs.iter().any(|name| name == asked.name()) {
            return Ok(Some(asked));
        }
        let theirs = self.theirs.join(", ");
        let text = format!("the far side has no protocol {asked}, but {theirs}");
        Err(Error::new(Code::Protocol, text))
    }
}

impl Settings {
    /// What a circuit carries when, which only a protocol that follows it needs, and which it does need.
    fn vector(&self) -> Result<Option<Trc>, Error> {
        let text = &self.options.trc;
        let asked = protocol::asked(&self.options.protocol)?;
        match (asked, text.is_empty()) {
            (Some(Protocol::Vbtp), true) => {
                Err(misuse("vbtp follows a circuit's vector: say it with --trc"))
            }
            (_, true) => Ok(None),
            // who leaves it open gets what follows the vector
            (None | Some(Protocol::Vbtp), false) => vector::parse("--trc", text).map(Some),
            (Some(_), false) => Err(misuse("only vbtp follows a vector: leave --trc out")),
        }
    }
}

impl Settings {
    /// The vector by the session's clock, where data begin to move at `started`.
    fn vector_at(&self, started: Instant) -> Result<Option<Trc>, Error> {
        let Some(trc) = self.vector()? else {
            return Ok(None);
        };
        let said = i128::from(self.said.as_nanos());
        let zero = match self.options.trc_in {
            None => i128::from(started.as_nanos()),
            Some(nanos) => said + i128::from(nanos),
        };
        let by = Duration::from_nanos(u64::try_from(zero.unsigned_abs()).unwrap_or(u64::MAX));
        let trc = if zero < 0 {
            trc.advanced(by).ok_or(TrcError::Past)
        } else {
            trc.shifted(by)
        };
        let trc = trc.and_then(|trc| trc.check_ahead(started).map(|()| trc));
        trc.map(Some)
            .map_err(|why| misuse(&format!("--trc: {why}")))
    }
}

fn misuse(text: &str) -> Error {
    Error::new(Code::Usage, text)
}

/// Sends what `finds` has to the peer, which has agreed to take it.
pub fn send(
    session: &Session,
    door: &Door<'_>,
    finds: Finds,
    settings: Settings,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let (crew, queue, board) = (Crew::default(), Queue::default(), Board::default());
    let baton = Baton::default();
    let stream = session.control.open(LIST)?;
    let options = settings.options.clone();
    let ground = Arc::clone(&finds.ground);
    let mut sending = Sending {
        crew: &crew,
        session,
        queue: &queue,
        board: &board,
        baton: &baton,
        ground: Arc::clone(&ground),
        settings,
        watcher,
        begun: session.clock.now(),
        failures: Failures::default(),
    };
    let scan = Scan {
        crew: &crew,
        session,
        stream: &stream,
        queue: &queue,
        board: &board,
        ground: &ground,
        options: &options,
    };
    let (named, top) = (finds.named, finds.top);
    let (found, list) = match finds.from {
        Origin::Here(found) => (found, None),
        Origin::There(base) => {
            let (list, names) = Heard::new();
            let rules = options.rules.clone();
            let found = Listed::new(Arc::clone(&ground), base, names, rules);
            (Box::new(found) as Box<_>, Some(list))
        }
    };
    let found = Inspected::new((found, top.as_deref()), Arc::clone(&ground), &options);
    let found = Box::new(found);
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
    crew: &'a Crew,
    session: &'a Session,
    queue: &'a Queue,
    board: &'a Board,
    baton: &'a Baton,
    ground: Arc<Ground>,
    settings: Settings,
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
        let session = self.session;
        let (offer, path, joined) = self.agree(door)?;
        let started = session.clock.now();
        let start_up = started.since(self.begun);
        let rate = Rate::from_bps(offer.rate_bps).unwrap_or(Rate::UNLIMITED);
        announce(
            session,
            (protocol::asked(&self.settings.options.protocol)?, &offer),
            (self.settings.plain, self.settings.options.digest),
            start_up,
            self.watcher,
        );
        let trc = self.settings.vector_at(started)?;
        let share = Arc::new(Share::new(self.limited(rate)));
        let common = Common {
            crew: self.crew,
            session,
            queue: self.queue,
            board: self.board,
            share: Arc::clone(&share),
            baton: self.baton,
            trc,
            offer,
            plain: self.settings.plain,
        };
        let lanes = offer::lanes_over(session, &offer, path, &joined)?;
        let (done, finished) = channel::<()>();
        let held = HeldReader {
            crew: self.crew,
            session,
            queue: self.queue,
            ground: Arc::clone(&self.ground),
        };
        let crew = self.crew;
        scope.spawn(move || crew.run("comparison", || held.run()));
        let budget = self.settings.budget;
        let (memory, open_max) = budget.of_lane(lanes.len());
        for (number, mut lane) in lanes.into_iter().enumerate() {
            // a circuit's rate is its vector's
            lane.share = common.trc.is_none().then(|| Arc::clone(&share));
            let (told, reports) = channel();
            let kind = self.settings.options.digest;
            let source = FileSource::new(Arc::clone(&self.ground), (kind, open_max), told);
            let store = ReadAhead::start(source, offer.packet_len, memory)?;
            let (crew, common, done) = (self.crew, common.clone(), done.clone());
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
        let _alive = Alive::say(scope, session);
        let mut summary = self.watch(&share, rate, lanes_run)?;
        summary.elapsed = session.clock.now().since(self.begun);
        summary.moving = session.clock.now().since(started);
        Ok(summary)
    }

    /// Looks at the path, and agrees with the receiver on what moves the data, and how.
    fn agree(&mut self, door: &Door<'_>) -> Result<(Offer, Path, Vec<Control>), Error> {
        let session = self.session;
        let asked = self.settings.asked()?;
        let trc = self.settings.vector()?;
        let lanes = offer::lanes(asked, trc.is_some());
        let mut path = explore(session, door, true, lanes)?;
        let peak = trc.and_then(|trc| trc.steps().iter().map(|step| step.rate).max());
        let mut rate = choose_rate(session, &mut path, peak.or(self.settings.rate))?;
        let chosen = asked.is_none().then(|| self.choose(&path, rate));
        let protocol = chosen.as_ref().map(|choice| choice.protocol).or(asked);
        let protocol = protocol.unwrap_or_default();
        if !protocol.is_datagrams() {
            path.sockets.clear();
            rate = self.settings.rate.unwrap_or(Rate::UNLIMITED);
        }
        let options = &self.settings.options;
        let mut offer = Offer::new(session, (protocol, options.streams), &path, rate);
        let is_soon_there = protocol == Protocol::Tcp && self.queue.bytes().is_some_and(is_little);
        if is_soon_there || options.dry_run.is_some() {
            // further connections would take longer than they spare
            offer.joins = 0;
        }
        session.say(&Message::Offer(offer))?;
        let joined = join(session, door, offer.joins, self.settings.plain)?;
        self.baton
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
            rtt: self.session.rtt,
            rate: Some(rate),
            lost_ppm: path.lost_ppm,
            waited: path.waited,
            buffer_bytes: sockets.first().map_or(0, Udp::buffer_bytes),
            booked: !self.settings.options.trc.is_empty(),
            shared: self.settings.options.shared,
            bytes: self.queue.bytes(),
        })
    }

    /// Hears from the receiver until it gives its verdict.
    fn watch(
        &mut self,
        share: &Share,
        rate: Rate,
        lanes_run: impl Fn() -> bool,
    ) -> Result<Summary, Error> {
        let clock = self.session.clock;
        let mut ease = Ease::new(clock.now(), rate);
        let mut eased = rate;
        let begun = clock.now();
        let mut progress = Progress::default();
        let mut sent = false;
        loop {
            self.crew.check()?;
            self.show();
            self.failures.bear()?;
            share.set(self.limited(eased));
            if !sent && !lanes_run() {
                sent = true;
                self.crew.check()?;
                self.session.say(&Message::Sent)?;
            }
            let message = match self.session.hear_for(TICK) {
                Err(error) if error.code == Code::TimedOut => {
                    let patience = self.settings.options.patience();
                    if clock.now().since(begun.max(self.session.heard_at())) > patience {
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
        let clock = self.session.clock;
        let patience = self.settings.options.patience();
        let mut judged = (clock.now(), 0);
        while !self.queue.is_judged() {
            // that thread goes on when there is room for what it has to show
            self.show();
            let now = self.queue.judged(self.crew)?;
            if now != judged.1 {
                judged = (clock.now(), now);
            }
            if clock.now().since(judged.0) > patience {
                return Err(lie());
            }
        }
        Ok(())
    }

    /// The part of `rate` that the timetable allows now.
    fn limited(&self, rate: Rate) -> Rate {
        let limit = self.settings.limit.as_ref();
        let limit = limit.and_then(|limit| limit.rate_at(week_time()));
        limit.map_or(rate, |limit| rate.min(limit))
    }

    fn take(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Warning { text } => {
                self.board.show(Sight::Warning(text));
                Ok(())
            }
            Message::Hashed(hashed) if hashed.is_sound() => {
                self.board.show(Sight::Hashed(hashed));
                Ok(())
            }
            Message::Settled { entries, failures } => {
                self.queue
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
        let first = self.board.lane(0);
        first.bytes.store(progress.bytes, Relaxed);
        first.buffer_drops.store(progress.buffer_drops, Relaxed);
        first.foreign.store(progress.foreign, Relaxed);
        self.board.published.store(progress.published, Relaxed);
        for (lane, seen) in self.board.lanes().iter().zip(&progress.datagrams) {
            lane.datagrams.store(*seen, Relaxed);
        }
    }

    fn show(&mut self) {
        for sight in self.board.take_sights() {
            if let Sight::Failed(failed) = &sight {
                self.failures.push(failed.clone());
            }
            (self.watcher)(sight);
        }
        let motion = self.board.motion(self.queue.totals().wanted);
        if motion.sent > 0 {
            (self.watcher)(Sight::Moving(motion));
        }
    }

    fn conclude(&mut self, verdict: Verdict) -> Result<Summary, Error> {
        let totals = self.queue.totals();
        let fits = verdict.entries.max(verdict.unchanged) <= totals.entries
            && verdict.bytes <= totals.bytes;
        if totals.settled != totals.entries || !fits {
            return Err(lie());
        }
        self.show();
        let motion = self.board.motion(totals.wanted);
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
