//! Sending side of a lane: one object after another, each with its own machine.
//!
//! [`SendLane`] takes objects from the queue. If no datagram arrives at the receiver for some time, the stream carries
//! the rest. The next lane starts when this lane has sent its first object.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::read_ahead::ReadAhead;
use lighthaul_base::{Instant, Trc};
use lighthaul_copy::message::{Announced, Message};
use lighthaul_copy::monitor::{Counts, nanos};
use lighthaul_copy::report::Report;
use lighthaul_copy::thread_group::CHECK_INTERVAL;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_io::drive::{Lane, Next, Owner, Share, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::store::waits::Waits;
use lighthaul_parts::transfer_rate::PassBegin;
use lighthaul_session::error::Error;
use lighthaul_session::machine::{MachineEvent, SendMachine};
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::protocol::Protocol;

use super::circuit_lock::CircuitUse;
use super::queue::{ObjectTerms, PlannedObject};
use super::rate_control::RateControl;
use super::source::FileSource;
use super::switch_control::SwitchControl;
use super::transfer::Transfer;

/// Time without an arriving datagram after which the stream carries the data.
const BARREN: Duration = Duration::from_millis(1500);

/// Time before the end of a pass at which the next lane may start, so that it can read its first bytes.
const AHEAD: Duration = Duration::from_millis(20);

/// State that all lanes share.
#[derive(Clone)]
pub(super) struct Common<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) share: Arc<Share>,
    pub(super) rate: Arc<RateControl>,
    /// Protocol of the next object, which may change between objects.
    pub(super) course: Arc<SwitchControl>,
    /// Capacity of the circuit over time, if the copy has a circuit.
    pub(super) trc: Option<Trc>,
    pub(super) offer: Offer,
    /// True if the rate was not measured now, and must be checked.
    pub(super) is_remembered: bool,
}

impl Common<'_> {
    /// Returns the parameters of the next object.
    fn next_offer(&self) -> Offer {
        let changed = self.course.offer();
        changed.unwrap_or_else(|| self.offer.with(self.offer.protocol))
    }
}

/// Sending side of a lane, with its source.
pub(super) struct SendLane<'a> {
    pub(super) common: Common<'a>,
    pub(super) number: u8,
    pub(super) lane: Lane,
    pub(super) store: ReadAhead<FileSource>,
    pub(super) reports: Receiver<(u64, Vec<Report>)>,
}

impl SendLane<'_> {
    /// Sends objects until the queue ends.
    pub(super) fn run(mut self) -> Result<(), Error> {
        let common = self.common.clone();
        let transfer = common.transfer;
        // the course, and the rate limit at this time of day, may change
        let terms = || {
            let offer = common.next_offer();
            let rate = offer::expected_rate(&offer, common.share.whole(), transfer.learned.load());
            ObjectTerms {
                len: offer::object_len(&offer, rate, transfer.session.rtt),
                turns: offer.protocol.turns(offer.lanes),
                unsent_max: common.rate.lanes_max(),
            }
        };
        while let Some(plan) = transfer.queue.take(&transfer.threads, terms)? {
            self.send(Arc::new(plan))?;
        }
        Ok(())
    }

    fn send(&mut self, plan: Arc<PlannedObject>) -> Result<(), Error> {
        let transfer = self.common.transfer;
        let offer = self.common.next_offer();
        let (session, plain) = (transfer.session, transfer.settings.plain);
        let share = &self.common.share;
        let object = plan.number;
        let counts = transfer.monitor.lane(self.number.into());
        transfer.say(&Message::Object(Announced {
            number: object,
            lane: self.number,
            protocol: offer.protocol,
            pieces: plan.layout.pieces().to_vec(),
            source_wait: counts.source_wait.load(Relaxed),
        }))?;
        let shown = Arc::clone(&plan);
        counts.begin(move |position| shown.file_at(position), offer.packet_len);
        share.enter();
        offer::rekey(session, &mut self.lane, object, plain);
        let unused = offer::prepare(&mut self.lane, offer.protocol);
        let len = plan.layout.object_len();
        let mut setup = offer::setup(&offer, (object, len), &self.lane, plain)?;
        if self.lane.share.is_some() {
            setup.rate = share.part();
        }
        setup.is_remembered = self.common.is_remembered;
        setup.trc.clone_from(&self.common.trc);
        self.store.set_packet_len(offer.packet_len);
        self.store.begin(plan)?;
        // without datagrams, the vector has no effect
        let circuit = offer.protocol == Protocol::Vbtp;
        let circuit = circuit.then(|| transfer.circuit.take(&transfer.threads));
        let circuit = circuit.transpose()?;
        let now = session.clock.now();
        let learned = &transfer.learned;
        let mut sender = SendMachine::new(now, &setup, learned.load());
        let mut owner = SendOwner {
            common: &self.common,
            counts,
            waits: self.store.waits(),
            held: (now, Duration::from_nanos(counts.target_wait.load(Relaxed))),
            reports: &self.reports,
            reported: false,
            passed: false,
            unsent: Some(Unsent { _circuit: circuit }),
            udp: self.lane.udp.is_some(),
            packet_len: offer.packet_len,
            pass: None,
            before: Before::of(counts),
            moved: (now, 0, 0),
            object_time: Duration::from_nanos(counts.object_time.load(Relaxed)),
            begun: now,
            failed: None,
        };
        let ran = run(&mut sender, &mut self.lane, &mut self.store, &mut owner);
        owner.count(&sender);
        self.lane.udp = unused.or_else(|| self.lane.udp.take());
        if ran.is_ok() {
            owner.leave();
        }
        counts.end();
        match (ran, owner.failed.take()) {
            (Err(_), Some(error)) => return Err(error),
            (Err(error), None) => return Err(error.into()),
            (Ok(()), _) => {}
        }
        // all of the object was read, or it could not have been sent
        owner.pass_on_reports(CHECK_INTERVAL)
    }
}

/// Counters of a lane before an object.
struct Before {
    packets: u64,
    again: u64,
}

impl Before {
    fn of(counts: &Counts) -> Self {
        Self {
            packets: counts.packets.load(Relaxed),
            again: counts.again.load(Relaxed),
        }
    }
}

/// Object that this host may still send a part of, with its use of the circuit.
struct Unsent<'a> {
    _circuit: Option<CircuitUse<'a>>,
}

// fields: state of one object, which each event reads and changes
struct SendOwner<'a> {
    common: &'a Common<'a>,
    counts: &'a Counts,
    waits: Waits,
    /// Time of the last tick, and total time in which the receiver asked the lane to wait.
    held: (Instant, Duration),
    reports: &'a Receiver<(u64, Vec<Report>)>,
    reported: bool,
    /// True if another lane may have started.
    passed: bool,
    /// Present until the whole object has left this host, or the circuit.
    unsent: Option<Unsent<'a>>,
    udp: bool,
    packet_len: u32,
    /// Start of the current pass.
    pass: Option<PassBegin>,
    before: Before,
    /// Time of the last arrival of datagrams, and the numbers of arrived and sent datagrams at that time.
    moved: (Instant, u64, u64),
    /// Time of the lane in earlier objects, and the start of this one.
    object_time: Duration,
    begun: Instant,
    failed: Option<Error>,
}

impl SendOwner<'_> {
    /// Sends the reports about the object, if the whole object was read. Waits for that at most `patience`.
    fn pass_on_reports(&mut self, patience: Duration) -> Result<(), Error> {
        if !self.reported
            && let Ok((object, reports)) = self.reports.recv_timeout(patience)
        {
            for message in Message::reports(object, reports) {
                self.common.transfer.say(&message)?;
            }
            self.reported = true;
        }
        Ok(())
    }

    fn count(&self, sender: &SendMachine) {
        let (counts, before) = (self.counts, &self.before);
        counts
            .packets
            .store(before.packets + sender.sent(), Relaxed);
        counts.again.store(before.again + sender.resent(), Relaxed);
        counts.round.store(sender.round(), Relaxed);
        counts.held.store(sender.is_held(), Relaxed);
        let (source, target) = (self.waits.total(), self.held.1);
        counts.source_wait.store(nanos(source), Relaxed);
        counts.target_wait.store(nanos(target), Relaxed);
    }

    /// Lets another lane start, with the measurements of this lane.
    fn pass_turn(&mut self, sender: &SendMachine) {
        if !std::mem::replace(&mut self.passed, true) {
            self.common.transfer.learned.store(sender.learned());
            self.common.transfer.queue.pass_turn();
        }
    }

    /// Lets another lane use the circuit, since the whole object has left this host.
    fn leave(&mut self) {
        if self.unsent.take().is_some() {
            self.common.transfer.queue.count_sent();
        }
    }

    /// Ends a pass that lost `lost` packets.
    fn end_pass(&mut self, lost: u64, now: Instant) {
        if let Some(begin) = self.pass.take() {
            let settings = &self.common.transfer.settings;
            let changed = self.common.rate.end_pass(begin, lost, now, settings);
            self.common.transfer.explain(changed);
        }
    }

    fn divert(&mut self, why: &str) -> Next {
        if !self.udp {
            return Next::Continue;
        }
        self.udp = false;
        let transfer = self.common.transfer;
        if !transfer.diverted.swap(true, Relaxed) {
            let text = format!("{why}; TCP carries the data from now on");
            transfer.monitor.show(CopyEvent::Diverted(text));
        }
        Next::Divert
    }
}

impl Owner<SendMachine> for SendOwner<'_> {
    fn event(
        &mut self,
        sender: &mut SendMachine,
        event: MachineEvent,
        now: Instant,
    ) -> Result<Next, World> {
        match event {
            MachineEvent::Round(number, packets) => {
                if number > 1 {
                    self.common.share.enter();
                    self.end_pass(packets, now);
                }
                self.pass = self.common.rate.begin_pass(packets);
                self.common
                    .transfer
                    .monitor
                    .show(CopyEvent::Round { number, packets });
                Ok(Next::Continue)
            }
            MachineEvent::Asked(round) => {
                self.common.share.leave();
                if round == 1 {
                    self.pass_turn(sender);
                }
                Ok(Next::Continue)
            }
            MachineEvent::Paused(on) => {
                if on {
                    // another lane has another socket, whose buffer has room
                    self.common.share.leave();
                    self.pass_turn(sender);
                } else {
                    self.common.share.enter();
                }
                Ok(Next::Continue)
            }
            MachineEvent::Idle => Ok(Next::Continue),
            MachineEvent::Released => {
                self.leave();
                self.pass_turn(sender);
                Ok(Next::Continue)
            }
            MachineEvent::Barren => Ok(self.divert("a whole round of datagrams was lost")),
            MachineEvent::Complete => {
                self.end_pass(0, now);
                // protocols that send and repeat at once pass the turn only now
                self.pass_turn(sender);
                Ok(Next::Finish)
            }
            MachineEvent::Failed(why) => Err(World::PeerMisbehaved(why)),
        }
    }

    fn tick(&mut self, sender: &mut SendMachine, now: Instant) -> Result<Next, World> {
        let checked = self
            .common
            .transfer
            .threads
            .check()
            .and_then(|()| self.pass_on_reports(Duration::ZERO));
        if let Err(error) = checked {
            self.failed = Some(error);
            return Err(World::Interrupted);
        }
        let (since, held) = self.held;
        let more = if sender.is_held() {
            now.since(since)
        } else {
            Duration::ZERO
        };
        self.held = (now, held + more);
        self.count(sender);
        let time = self.object_time + now.since(self.begun);
        self.counts.object_time.store(nanos(time), Relaxed);
        if self.udp {
            let (rate, settings) = (&self.common.rate, &self.common.transfer.settings);
            // the lanes that send at this time share the rate
            let is_whole = sender.rate() >= self.common.share.part().scaled(98, 100);
            let changed = rate.handle_use(now, is_whole, settings);
            self.common.transfer.explain(changed);
        }
        if sender.round() == 1 && sender.is_ending(AHEAD, self.packet_len) {
            self.pass_turn(sender);
        }
        let seen = self.counts.datagrams.load(Relaxed);
        let (at, heard, sent) = self.moved;
        if seen != heard || sender.is_held() || sender.sent() == sent {
            self.moved = (now, seen, sender.sent());
        } else if now.since(at) > BARREN + self.common.transfer.session.rtt {
            return Ok(self.divert("no datagram arrives at the receiver"));
        }
        Ok(Next::Continue)
    }
}
