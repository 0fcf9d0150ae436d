//! Lanes of a simulated transfer: each sends one object after the other, as the lanes of a copy do.
//!
//! As many lanes as the protocol's turns allow send new packets at a time. The others wait for
//! feedback, send lost packets again, or wait for their turn.

use std::time::Duration;

use lighthaul_base::{Body, Endpoint, Head, Instant, Message, Rate, Transmit, Via};
use lighthaul_parts::disk_rate::DiskFacts;
use lighthaul_parts::host_rate::HostFacts;
use lighthaul_parts::transfer_rate::PassBegin;
use lighthaul_session::machine::{Learned, MachineEvent, SendMachine, Setup};
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::protocol::Protocol;

use super::agreement::{AROUND, Announced, Shared, Tag, TransferConfig, next_number, stream};
use super::rate::LaneRate;

/// Time before the end of a pass at which the next lane may start.
const AHEAD: Duration = Duration::from_millis(20);
/// Minimum wait for late datagrams.
const SETTLE_MIN: Duration = Duration::from_millis(2);
/// Maximum wait for late datagrams.
const SETTLE_MAX: Duration = Duration::from_millis(25);

/// Sending lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    config: TransferConfig,
    shared: Shared,
    protocol: Protocol,
    /// Offered rate of the path.
    offered: Rate,
    rate: LaneRate,
    learned: Learned,
    each: Vec<Lane>,
    /// Announcements of objects. Only those of RBUDP+ are of use, whose sender may wait for the receiver.
    announced: Vec<u16>,
    /// Share of the rate that each machine has.
    told: Rate,
    /// Packets that lanes sent, and packets that they sent again.
    counts: (u64, u64),
    /// The same counts for TCP, before the lanes and beside them.
    streamed: (u64, u64),
}

/// One lane.
#[derive(Debug)]
struct Lane {
    number: u8,
    object: u8,
    machine: Option<SendMachine>,
    /// True while the lane may send new packets.
    has_turn: bool,
    pass: Option<PassBegin>,
    /// Packets sent in earlier objects, and packets sent again.
    before: (u64, u64),
}

impl Lanes {
    /// Creates idle lanes for `protocol` at the rate of the path.
    pub(crate) fn new(
        now: Instant,
        config: TransferConfig,
        shared: Shared,
        (protocol, offered): (Protocol, Rate),
    ) -> Self {
        let lane = |number| Lane {
            number,
            object: 0,
            machine: None,
            has_turn: false,
            pass: None,
            before: (0, 0),
        };
        shared.borrow_mut().objects = (0..config.lanes).map(|_| None).collect();
        let rate = LaneRate::new(now, (protocol, offered), &config);
        shared.borrow_mut().rates.push((now, rate.whole()));
        Self {
            config,
            shared,
            protocol,
            offered,
            told: rate.whole(),
            counts: (0, 0),
            streamed: (0, 0),
            rate,
            learned: Learned::Nothing,
            announced: Vec::new(),
            each: (0..config.lanes).map(lane).collect(),
        }
    }

    /// Starts objects on idle lanes that may send. Returns true if any has started.
    pub(crate) fn start(&mut self, now: Instant) -> bool {
        let turns = self.protocol.turns(self.config.lanes);
        let mut has_started = false;
        loop {
            let busy = self.each.iter().filter(|lane| lane.has_turn).count();
            let idle = self.each.iter().position(|lane| lane.machine.is_none());
            let open = self.busy() < self.rate.lanes_max();
            let Some(idle) = idle.filter(|_| open && busy < turns) else {
                return has_started;
            };
            self.begin(now, idle);
            has_started = true;
        }
    }

    fn begin(&mut self, now: Instant, nth: usize) {
        self.rate.enter();
        let (config, part) = (self.config, self.rate.part());
        let offer = self.offer();
        let lane = &mut self.each[nth];
        lane.object = next_number(lane.object);
        let settle = Duration::from_micros(offer.settle_us.into());
        let expected = offer::expected_rate(&offer, self.rate.whole(), self.learned);
        let object_len = offer::object_len(&offer, expected, config.rtt);
        let setup = Setup {
            protocol: self.protocol,
            object: u64::from(lane.object),
            object_len,
            packet_len: offer.packet_len,
            overhead_len: AROUND,
            rate: part,
            path_rate: self.offered,
            is_remembered: config.known.is_some(),
            stream: stream(lane.number, lane.object),
            streams: 0,
            settle,
            repeat: settle,
            rtt: config.rtt,
            trc: None,
        };
        lane.machine = Some(SendMachine::new(now, &setup, self.learned));
        (lane.has_turn, lane.pass) = (true, None);
        let (lane_number, object) = (lane.number, lane.object);
        let busy = self.busy();
        if self.protocol == Protocol::RbudpPlus {
            self.announced.push(stream(lane_number, object));
        }
        let mut shared = self.shared.borrow_mut();
        let position = shared.position;
        shared.position += object_len;
        shared.lens.push((now, object_len));
        shared.busy.push((now, busy));
        shared.objects[nth] = Some(Announced {
            number: object,
            position,
            setup,
        });
        shared.began.get_or_insert(now);
    }

    /// Returns the number of lanes that have an object.
    fn busy(&self) -> usize {
        let lanes = self.each.iter();
        lanes.filter(|lane| lane.machine.is_some()).count()
    }

    /// Returns the parameters that a copy would offer.
    fn offer(&self) -> Offer {
        let config = &self.config;
        let settle = (config.rtt / 8).clamp(SETTLE_MIN, SETTLE_MAX);
        Offer {
            protocol: self.protocol,
            packet_len: config.packet_len(self.protocol),
            rate_bps: self.offered.as_bps(),
            settle_us: settle.as_micros() as u32,
            rtt_us: config.rtt.as_micros() as u32,
            udp: true,
            lanes: config.lanes,
            joins: 0,
        }
    }

    /// Passes a message to the machine of its object.
    pub(crate) fn handle_message(&mut self, now: Instant, message: Message<'_>) {
        let found = match message.via {
            Via::Stream(number) => self
                .each
                .iter_mut()
                .find(|lane| stream(lane.number, lane.object) == number)
                .map(|lane| (lane, message)),
            Via::Datagram => self.addressed(message),
        };
        if let Some((lane, message)) = found
            && let Some(machine) = &mut lane.machine
        {
            machine.handle_message(now, message);
        }
    }

    /// Finds the lane of a datagram, and removes its tag.
    fn addressed<'a>(&mut self, message: Message<'a>) -> Option<(&mut Lane, Message<'a>)> {
        let (tag, head) = message.head.split_first()?;
        let Tag::Object(number, object) = Tag::decode(*tag) else {
            return None;
        };
        let lane = self.each.get_mut(usize::from(number))?;
        let message = Message { head, ..message };
        (lane.object == object).then_some((lane, message))
    }

    /// Advances the machines whose deadline has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for machine in self
            .each
            .iter_mut()
            .filter_map(|lane| lane.machine.as_mut())
        {
            if machine.poll_timeout().is_some_and(|due| due.at <= now) {
                machine.handle_timeout(now);
            }
        }
    }

    /// Returns the next message of any lane.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(number) = self.announced.pop() {
            return Some(Transmit {
                via: Via::Stream(number),
                head: Head::new(&[]),
                body: Body::None,
            });
        }
        for lane in &mut self.each {
            let Some(machine) = &mut lane.machine else {
                continue;
            };
            if let Some(transmit) = machine.poll_transmit(now) {
                return Some(tagged(transmit, Tag::Object(lane.number, lane.object)));
            }
        }
        None
    }

    /// Returns the next message of any lane. Starts objects and changes rates that are due.
    pub(crate) fn poll_and_settle(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_transmit(now).or_else(|| {
            let has_more = self.settle(now);
            has_more.then(|| self.poll_transmit(now)).flatten()
        })
    }

    /// Adapts to a report of the receiver, which arrives later.
    pub(crate) fn handle_report(&mut self, now: Instant, facts: (HostFacts, DiskFacts)) {
        self.rate.handle_report(now, self.counts.0, facts);
    }

    /// Counts the packets of TCP as packets of the transfer.
    pub(crate) const fn set_streamed(&mut self, packets: (u64, u64)) {
        self.streamed = packets;
    }

    /// Handles the events of all machines, starts objects, and sets the rates. Returns true if there
    /// may be more to send at once.
    pub(crate) fn settle(&mut self, now: Instant) -> bool {
        for nth in 0..self.each.len() {
            while let Some(event) = self.each[nth]
                .machine
                .as_mut()
                .and_then(Endpoint::poll_event)
            {
                self.handle_event(now, nth, &event);
            }
            let lane = &mut self.each[nth];
            let packet_len = self.config.packet_len(self.protocol);
            let is_ending = lane.machine.as_ref().is_some_and(|machine| {
                machine.round() == 1 && machine.is_ending(AHEAD, packet_len)
            });
            if lane.has_turn
                && let Some(machine) = &lane.machine
            {
                let is_whole = machine.rate() >= self.rate.part().scaled(98, 100);
                self.rate.handle_use(now, is_whole);
            }
            if lane.has_turn && is_ending {
                self.pass_turn(nth);
            }
        }
        let has_started = self.start(now);
        self.set_rates(now) || has_started
    }

    fn handle_event(&mut self, now: Instant, nth: usize, event: &MachineEvent) {
        match event {
            MachineEvent::Round(number, packets) => {
                if *number > 1 {
                    self.rate.enter();
                    self.end_pass(now, nth, *packets);
                }
                self.each[nth].pass = Some(self.rate.begin_pass(*packets));
            }
            MachineEvent::Asked(round) => {
                self.rate.leave();
                if *round == 1 {
                    self.pass_turn(nth);
                }
            }
            MachineEvent::Paused(true) => {
                self.rate.leave();
                self.pass_turn(nth);
            }
            MachineEvent::Paused(false) => self.rate.enter(),
            MachineEvent::Complete => {
                self.end_pass(now, nth, 0);
                self.pass_turn(nth);
                let lane = &mut self.each[nth];
                if let Some(machine) = lane.machine.take() {
                    lane.before.0 += machine.sent();
                    lane.before.1 += machine.resent();
                }
                let mut shared = self.shared.borrow_mut();
                if let Some(Announced {
                    position, setup, ..
                }) = &shared.objects[nth]
                {
                    let complete = (*position, setup.object_len);
                    shared.complete.push(complete);
                }
            }
            MachineEvent::Released => self.pass_turn(nth),
            MachineEvent::Idle | MachineEvent::Barren | MachineEvent::Failed(_) => {}
        }
    }

    fn end_pass(&mut self, now: Instant, nth: usize, lost: u64) {
        if let Some(begin) = self.each[nth].pass.take() {
            self.rate.end_pass(now, begin, lost);
        }
    }

    /// Passes the measurements of lane `nth` to another lane, which may then send new packets.
    fn pass_turn(&mut self, nth: usize) {
        let lane = &mut self.each[nth];
        if std::mem::replace(&mut lane.has_turn, false)
            && let Some(machine) = &lane.machine
        {
            self.learned = machine.learned();
        }
    }

    /// Divides the present rate among the machines, if it has changed.
    fn set_rates(&mut self, now: Instant) -> bool {
        let mut shared = self.shared.borrow_mut();
        let counted = self.each.iter().map(Lane::packets);
        self.counts = counted.fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1));
        shared.sent = self.counts.0 + self.streamed.0;
        shared.resent = self.counts.1 + self.streamed.1;
        if self.rate.courses() > shared.courses.len() as u64 {
            shared.courses.push(now);
        }
        let whole = self.rate.whole();
        if shared.rates.last().is_none_or(|(_, last)| *last != whole) {
            shared.rates.push((now, whole));
        }
        let part = self.rate.part();
        if part == self.told {
            return false;
        }
        self.told = part;
        for machine in self
            .each
            .iter_mut()
            .filter_map(|lane| lane.machine.as_mut())
        {
            machine.handle_rate(now, part);
        }
        true
    }

    /// Returns the time of the next timeout of any machine.
    pub(crate) fn due(&self) -> Instant {
        let machines = self.each.iter().filter_map(|lane| lane.machine.as_ref());
        let dues = machines.filter_map(Endpoint::poll_timeout);
        dues.map(|due| due.at).min().unwrap_or(Instant::NEVER)
    }
}

impl Lane {
    /// Returns the number of packets sent, and of packets sent again.
    fn packets(&self) -> (u64, u64) {
        let (sent, resent) = self.before;
        self.machine.as_ref().map_or(self.before, |machine| {
            (sent + machine.sent(), resent + machine.resent())
        })
    }
}

/// Puts a tag in front of a datagram. Messages of streams have a stream number instead.
pub(crate) fn tagged(transmit: Transmit, tag: Tag) -> Transmit {
    if transmit.via != Via::Datagram {
        return transmit;
    }
    let head = transmit.head.as_slice();
    let mut octets = [0; Head::MAX];
    octets[0] = tag.encode();
    octets[1..=head.len()].copy_from_slice(head);
    Transmit {
        head: Head::new(&octets[..=head.len()]),
        ..transmit
    }
}
