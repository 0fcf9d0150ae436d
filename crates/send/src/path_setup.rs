//! Set-up of the path and of the lanes, while other threads exchange the list and the requests.
//!
//! Little data need no exploration: they travel on the session's own connection, once the receiver has requested them.
//! Otherwise the path is explored at once, and measured when something is wanted, unless its rate is known.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use crate::read_ahead::ReadAhead;
use lighthaul_base::{Instant, Rate};
use lighthaul_copy::budget::Budget;
use lighthaul_copy::message::Message;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_io::control::Control;
use lighthaul_io::drive::Lane;
use lighthaul_io::host::wait::pause;
use lighthaul_io::net::udp::Udp;
use lighthaul_session::choose::{Choice, PathFacts, are_few, choose, is_little};
use lighthaul_session::dialog::Dialog;
use lighthaul_session::error::Error;
use lighthaul_session::halt::Halt;
use lighthaul_session::join::join;
use lighthaul_session::known_path::{KnownPath, PathEnds};
use lighthaul_session::offer::{self, Offer, STREAM_LANES};
use lighthaul_session::path::{Path, explore};
use lighthaul_session::protocol::Protocol;
use lighthaul_session::role::Role;

use super::delta::{DeltaSender, pays};
use super::lane::{Common, SendLane};
use super::rate_control::RateControl;
use super::source::FileSource;
use super::switch_control::SwitchControl;
use super::transfer::Transfer;

/// Rate on a path that carries datagrams but lost a whole train.
const RATE_UNKNOWN: Rate = Rate::from_mbps(10);
/// Shortest copy in which a search above a remembered rate begins at once.
const SEARCHED_MIN: Duration = Duration::from_secs(1);
/// Longest wait for the end of the list, before the path is explored.
const LIST_TIME: Duration = Duration::from_millis(20);
/// Interval at which a wait for the list is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Minimum wait for the receiver's answers to all entries, before connections are opened.
const ANSWERS_WAIT_MIN: Duration = Duration::from_millis(10);
/// Maximum wait for these answers.
const ANSWERS_WAIT_MAX: Duration = Duration::from_millis(500);

/// Thread that sets up the path.
pub(super) struct PathSetup<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) rate: Arc<RateControl>,
    pub(super) course: Arc<SwitchControl>,
    /// Ends the set-up when the copy ends.
    pub(super) halt: Arc<Halt>,
    /// Start of the copy.
    pub(super) begun: Instant,
}

/// Path that both sides agreed on.
struct Agreed {
    offer: Offer,
    path: Path,
    joined: Vec<Control>,
    /// Measured or given rate.
    rate: Option<Rate>,
    /// Automatic choice of the protocol, with the facts for it; none if the user chose the protocol.
    chosen: Option<(Choice, PathFacts)>,
    /// True if the rate was not measured now, and must be checked.
    is_remembered: bool,
}

impl<'a> PathSetup<'a> {
    /// Agrees with the receiver on the path, and starts the lanes. `done` is dropped when the last of them has ended.
    pub(super) fn run<'s>(
        &self,
        scope: &'s Scope<'s, 'a>,
        role: &Role,
        done: &Sender<()>,
    ) -> Result<(), Error> {
        let dialog = self.transfer.session.path_dialog(Arc::clone(&self.halt))?;
        match self.agree(&dialog, role) {
            Ok(Some(agreed)) => self.start(scope, agreed, done),
            Ok(None) => Ok(()),
            // the copy has ended, so its path is not needed
            Err(_) if self.halt.check().is_err() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Agrees with the receiver on the protocol and its parameters. Returns none if nothing is to be sent.
    fn agree(&self, dialog: &Dialog<'_>, role: &Role) -> Result<Option<Agreed>, Error> {
        let settings = &self.transfer.settings;
        let asked = settings.asked()?;
        let trc = settings.vector()?;
        let lanes = offer::lanes(asked, trc.is_some());
        let is_little = asked.is_none() && trc.is_none() && self.is_little()?;
        if is_little || settings.options.dry_run.is_some() {
            let mut nowhere = Path::none(dialog.session);
            if !self.await_wanted(dialog, &mut nowhere)? {
                return Ok(None);
            }
        }
        let peak = trc.and_then(|trc| trc.steps().iter().map(|step| step.rate).max());
        let given = peak.or(settings.rate);
        if is_little || lanes == 0 {
            let path = Path::none(dialog.session);
            return self.offer(dialog, role, (asked, path, given)).map(Some);
        }
        dialog.say(&Message::Explore)?;
        let mut path = explore(dialog, role, true, lanes)?;
        if !self.await_wanted(dialog, &mut path)? {
            return Ok(None);
        }
        let (rate, is_remembered) = if given.is_some() || path.sockets.is_empty() {
            (given, false)
        } else {
            let (rate, is_remembered) = self.path_rate(dialog, &mut path)?;
            (Some(rate), is_remembered)
        };
        let agreed = self.offer(dialog, role, (asked, path, rate))?;
        Ok(Some(Agreed {
            is_remembered,
            ..agreed
        }))
    }

    /// Returns true if the list ends within a moment, and its files are small.
    fn is_little(&self) -> Result<bool, Error> {
        let clock = self.transfer.session.clock;
        let until = clock.now() + LIST_TIME;
        loop {
            self.transfer.threads.check()?;
            let bytes = self.transfer.queue.listed_bytes();
            if bytes.is_some() || clock.now() >= until {
                return Ok(bytes.is_some_and(is_little));
            }
            pause(CHECK_INTERVAL);
        }
    }

    /// Waits until bytes may have to be sent, and keeps the path open. Returns false if the receiver has what it wants.
    fn await_wanted(&self, dialog: &Dialog<'_>, path: &mut Path) -> Result<bool, Error> {
        let (queue, threads) = (&self.transfer.queue, &self.transfer.threads);
        loop {
            dialog.check()?;
            if let Some(is_wanted) = queue.await_wanted(threads)? {
                return Ok(is_wanted);
            }
            path.stay_open(dialog)?;
        }
    }

    /// Returns the rate of the path, and true if the rate is remembered from an earlier copy and must be checked.
    fn path_rate(&self, dialog: &Dialog<'_>, path: &mut Path) -> Result<(Rate, bool), Error> {
        let far = PathEnds::of(dialog.session);
        let memory = self.transfer.settings.known.as_deref();
        let bytes = self.transfer.queue.listed_bytes();
        let known = memory.zip(bytes).and_then(|(memory, bytes)| {
            let known = memory.recall(far);
            known.filter(|known| known.suits(bytes))
        });
        if let Some(known) = known {
            path.lost_ppm = known.lost_ppm;
            self.transfer.path.get_or_init(|| known);
            return Ok((known.rate, true));
        }
        let Some(measured) = path.measure(dialog)? else {
            return Ok((RATE_UNKNOWN, true));
        };
        // slightly less, so that queues drain
        let rate = measured.scaled(995, 1000);
        let measured = KnownPath::now(rate, path.lost_ppm);
        self.transfer.path.get_or_init(|| measured);
        Ok((rate, false))
    }

    /// Reports whether the listed files take long enough for a search for a higher rate.
    fn is_long(&self, offer: &Offer) -> bool {
        let rate = Rate::from_bps(offer.rate_bps).unwrap_or(Rate::UNLIMITED);
        let bytes = self.transfer.queue.listed_bytes();
        bytes.is_none_or(|bytes| bytes > rate.bytes_in(SEARCHED_MIN))
    }

    /// Offers the receiver the parameters for `path`, and opens the connections for it.
    fn offer(
        &self,
        dialog: &Dialog<'_>,
        role: &Role,
        (asked, mut path, rate): (Option<Protocol>, Path, Option<Rate>),
    ) -> Result<Agreed, Error> {
        let (session, transfer) = (dialog.session, self.transfer);
        let facts = self.facts(&path, rate);
        let chosen = asked.is_none().then(|| choose(&facts));
        let protocol = chosen.as_ref().map(|choice| choice.protocol).or(asked);
        let protocol = protocol.unwrap_or_default();
        let options = transfer.options();
        let is_short = self.is_soon_there(protocol) || options.dry_run.is_some();
        let may_change = chosen.is_some() && !is_short && !protocol.alternatives().is_empty();
        let mut wire_rate = rate.unwrap_or(Rate::UNLIMITED);
        if !protocol.is_datagrams() && !may_change {
            path.sockets.clear();
            wire_rate = transfer.settings.rate.unwrap_or(Rate::UNLIMITED);
        } else if !protocol.is_datagrams() {
            path.sockets.truncate(STREAM_LANES.into());
        }
        let mut offer = Offer::new(session, (protocol, options.streams), &path, wire_rate);
        if is_short {
            // opening further connections would take longer than they save
            offer.joins = 0;
        }
        dialog.say(&Message::Offer(offer))?;
        let joined = join(dialog, role, offer.joins, transfer.settings.plain)?;
        transfer
            .learned
            .store(offer::width(session, options.streams, &joined));
        if let Some(Choice { protocol, why }) = chosen.clone() {
            transfer.say(&Message::Chosen { protocol, why })?;
        }
        Ok(Agreed {
            offer,
            path,
            joined,
            rate,
            chosen: chosen.map(|choice| (choice, facts)),
            is_remembered: false,
        })
    }

    /// Returns true if one connection moves all bytes before others are open.
    fn is_soon_there(&self, protocol: Protocol) -> bool {
        let streams = self.transfer.options().streams;
        match protocol {
            Protocol::Tcp => self.transfer.queue.bytes().is_some_and(is_little),
            Protocol::Ptcp if streams == 0 => self.await_bytes().is_some_and(are_few),
            Protocol::Ptcp
            | Protocol::Rbudp
            | Protocol::RbudpPlus
            | Protocol::Vbtp
            | Protocol::Sabul
            | Protocol::SabulSwift => false,
        }
    }

    /// Returns the bytes to send, if they become known in the time that further connections need.
    fn await_bytes(&self) -> Option<u64> {
        let session = self.transfer.session;
        let wait = (session.rtt * 2).clamp(ANSWERS_WAIT_MIN, ANSWERS_WAIT_MAX);
        let until = session.clock.now() + wait;
        loop {
            let bytes = self.transfer.queue.bytes();
            if bytes.is_some() || session.clock.now() >= until {
                return bytes;
            }
            pause(CHECK_INTERVAL);
        }
    }

    /// Returns the facts for the choice of the protocol.
    fn facts(&self, path: &Path, rate: Option<Rate>) -> PathFacts {
        let (sockets, queue) = (&path.sockets, &self.transfer.queue);
        PathFacts {
            datagram_len: if sockets.is_empty() {
                0
            } else {
                path.datagram_len
            },
            rtt: self.transfer.session.rtt,
            rate,
            lost_ppm: path.lost_ppm,
            waited: path.waited,
            buffer_bytes: sockets.first().map_or(0, Udp::buffer_bytes),
            booked: !self.transfer.options().trc.is_empty(),
            dedicated: self.transfer.options().dedicated,
            bytes: queue
                .bytes()
                .or_else(|| queue.listed_bytes().filter(|bytes| is_little(*bytes))),
            running: None,
        }
    }

    /// Starts the threads of the lanes.
    fn start<'s>(
        &self,
        scope: &'s Scope<'s, 'a>,
        agreed: Agreed,
        done: &Sender<()>,
    ) -> Result<(), Error> {
        let transfer = self.transfer;
        let (session, offer) = (transfer.session, agreed.offer);
        let started = session.clock.now();
        // a search for more costs a short copy more time than it saves; rules that watch the delay find it without loss
        let searches = offer.protocol == Protocol::SabulSwift || self.is_long(&offer);
        let settings = (&transfer.settings, agreed.is_remembered && searches);
        self.rate.start(started, &offer, settings);
        if let Some((Choice { protocol, why }, facts)) = agreed.chosen {
            let chosen = CopyEvent::Chosen(protocol.to_string(), why);
            transfer.monitor.show(chosen);
            if offer.udp && !protocol.alternatives().is_empty() {
                let mut connections = agreed.joined.clone();
                connections.push(session.control.clone());
                let terms = (offer, facts);
                self.course.start(terms, agreed.is_remembered, connections);
            }
        }
        transfer.monitor.announce(
            session,
            (transfer.settings.asked()?, &offer),
            (transfer.settings.plain, transfer.options().digest),
            started.since(self.begun),
        );
        let common = Common {
            transfer,
            share: self.rate.share(),
            rate: Arc::clone(&self.rate),
            course: Arc::clone(&self.course),
            trc: transfer.settings.vector_at(started)?,
            offer,
            is_remembered: agreed.is_remembered,
        };
        let lanes = offer::lanes_over(session, &offer, agreed.path, &agreed.joined)?;
        let budget = self.delta(scope, agreed.rate);
        let limits = budget.of_lane(lanes.len());
        for (number, lane) in lanes.into_iter().enumerate() {
            let lane = self.lane(&common, (number, lane), limits)?;
            let (threads, done) = (&transfer.threads, done.clone());
            scope.spawn(move || {
                threads.run("lane", || lane.run());
                drop(done);
            });
        }
        Ok(())
    }

    /// Creates a lane, with the thread that reads its bytes.
    fn lane(
        &self,
        common: &Common<'a>,
        (number, mut lane): (usize, Lane),
        (memory, open_max): (usize, usize),
    ) -> Result<SendLane<'a>, Error> {
        let transfer = self.transfer;
        // on a circuit, the vector determines the rate
        lane.share = common.trc.is_none().then(|| Arc::clone(&common.share));
        let (told, reports) = channel();
        let kind = transfer.options().digest;
        let from = (transfer.sources.clone(), Arc::clone(&transfer.threads.work));
        let source = FileSource::new(from, (kind, open_max), told);
        Ok(SendLane {
            common: common.clone(),
            number: number as u8,
            lane,
            store: ReadAhead::start(source, common.offer.packet_len, memory)?,
            reports,
        })
    }

    /// Starts the thread of deltas. Returns the limits of everything else.
    fn delta<'s>(&self, scope: &'s Scope<'s, 'a>, rate: Option<Rate>) -> Budget {
        let transfer = self.transfer;
        let budget = transfer.settings.budget;
        let rate = rate.map(|rate| transfer.settings.limited(rate));
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
}
