//! Sending side of a simulated transfer.
//!
//! ```text
//! Exploring -- one round trip --> Measuring -- two trains --> Lanes or Tcp -- last object --> Switched
//!     \--------- remembered rate --------------------------/
//! ```

use std::time::Duration;

use lighthaul_base::{Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Via};
use lighthaul_parts::disk_rate::DiskFacts;
use lighthaul_proto::stripe::Width;
use lighthaul_session::choose::{PathFacts, choose};
use lighthaul_session::protocol::Protocol;
use lighthaul_session::protocol_switch::{Evidence, ProtocolSwitch};
use lighthaul_sim::Ledger;
use lighthaul_workload::tcp;

use super::agreement::{REPORTS, Shared, Tag, TransferConfig};
use super::lanes::{Lanes, tagged};
use super::train::{Report, TrainSender};

/// Maximum number of connections of parallel TCP.
const CONNECTIONS_MAX: u8 = 32;
/// Interval of the receiver's reports, as in a copy.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// Length of an object that TCP carries if another protocol may replace it, as in a copy.
const STREAM_OBJECT_LEN: u64 = 16 << 20;

/// Sending side.
#[derive(Debug)]
pub(crate) struct TransferSender {
    config: TransferConfig,
    shared: Shared,
    phase: Phase,
    /// Protocol in use, if it may change.
    switch: Option<ProtocolSwitch>,
    /// Time of the next report of the receiver.
    report: Instant,
}

#[derive(Debug)]
enum Phase {
    Exploring(Instant),
    Measuring(TrainSender),
    Lanes(Box<Lanes>),
    Tcp(Connections),
    /// TCP completes its last object, while lanes send the next.
    Switched(Connections, Box<Lanes>),
}

impl TransferSender {
    /// Starts a transfer.
    pub(crate) fn new(now: Instant, config: TransferConfig, shared: Shared) -> Self {
        let mut sender = Self {
            phase: Phase::Exploring(now + config.rtt),
            config,
            shared,
            switch: None,
            report: now,
        };
        if config.is_checked {
            sender.shared.borrow_mut().ledger = Some(Ledger::default());
        }
        if let Some(protocol) = config.asked.filter(|asked| !asked.is_datagrams()) {
            // streams need no measurement
            sender.move_data(now, protocol, Rate::UNLIMITED);
        }
        sender
    }

    /// Chooses a protocol for the measured path, and starts the transfer.
    fn decide(&mut self, now: Instant, (rate, lost_ppm): (Rate, u32)) {
        self.shared.borrow_mut().measured = Some(rate);
        let config = &self.config;
        let facts = PathFacts {
            datagram_len: config.datagram_len() as usize,
            rtt: config.rtt,
            rate: Some(rate),
            lost_ppm,
            buffer_bytes: config.socket_bytes as usize,
            waited: config.waited,
            booked: false,
            dedicated: config.dedicated,
            bytes: None,
            running: None,
        };
        let protocol = config.asked.unwrap_or_else(|| choose(&facts).protocol);
        if config.asked.is_none() && !protocol.alternatives().is_empty() {
            self.switch = Some(ProtocolSwitch::new(protocol, facts));
        }
        self.move_data(now, protocol, rate);
    }

    fn move_data(&mut self, now: Instant, protocol: Protocol, rate: Rate) {
        self.shared.borrow_mut().protocol = Some(protocol);
        self.phase = match protocol {
            Protocol::Tcp => Phase::Tcp(Connections::new(now, &self.config, 1)),
            Protocol::Ptcp => Phase::Tcp(Connections::new(now, &self.config, CONNECTIONS_MAX)),
            Protocol::Rbudp
            | Protocol::RbudpPlus
            | Protocol::Vbtp
            | Protocol::Sabul
            | Protocol::SabulSwift => {
                let shared = Shared::clone(&self.shared);
                let mut lanes = Lanes::new(now, self.config, shared, (protocol, rate));
                lanes.start(now);
                Phase::Lanes(Box::new(lanes))
            }
        };
        self.shared.borrow_mut().began.get_or_insert(now);
    }

    /// Takes the report of the receiver that is due.
    fn take_report(&mut self, now: Instant) {
        if now < self.report {
            return;
        }
        self.report = now + REPORT_INTERVAL;
        let shared = self.shared.borrow();
        let disks = DiskFacts {
            arrived: shared.facts.arrived,
            lane_time: shared
                .began
                .map_or(Duration::ZERO, |began| now.since(began)),
            ..shared.disks
        };
        let (facts, bytes) = ((shared.facts, disks), shared.streamed);
        drop(shared);
        match &mut self.phase {
            Phase::Lanes(lanes) | Phase::Switched(_, lanes) => lanes.handle_report(now, facts),
            Phase::Tcp(connections) => {
                let Some(switch) = &mut self.switch else {
                    return;
                };
                let (sent, resent) = connections.packets();
                let evidence = Evidence {
                    bytes,
                    segments: (sent as u32, resent as u32),
                    limit: Rate::UNLIMITED,
                };
                if let Some(choice) = switch.update(now, evidence) {
                    connections.end_object(STREAM_OBJECT_LEN);
                    let mut shared = self.shared.borrow_mut();
                    shared.switches.push((now, choice.protocol));
                }
            }
            Phase::Exploring(_) | Phase::Measuring(_) => {}
        }
    }

    /// Starts the lanes of the next protocol, if TCP has sent its last object.
    fn begin_lanes(&mut self, now: Instant) {
        let Phase::Tcp(connections) = &self.phase else {
            return;
        };
        let (Some(end), Some(switch)) = (connections.object_end(), &self.switch) else {
            return;
        };
        let mut shared = self.shared.borrow_mut();
        let rate = shared.measured.unwrap_or(Rate::UNLIMITED);
        shared.position = end;
        shared.complete.push((0, end));
        drop(shared);
        let next = (switch.protocol(), rate);
        let mut lanes = Lanes::new(now, self.config, Shared::clone(&self.shared), next);
        lanes.start(now);
        let before = std::mem::replace(&mut self.phase, Phase::Exploring(now));
        if let Phase::Tcp(connections) = before {
            self.phase = Phase::Switched(connections, Box::new(lanes));
        }
    }
}

impl Endpoint for TransferSender {
    type Event = ();

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        match &mut self.phase {
            Phase::Measuring(train) if message.via == Via::Stream(REPORTS) => {
                let report = Report::decode(message.head)?;
                if let Some(measured) = train.handle_report(now, report) {
                    self.decide(now, measured);
                }
            }
            Phase::Lanes(lanes) => lanes.handle_message(now, message),
            Phase::Tcp(connections) => connections.handle_message(now, message),
            Phase::Switched(connections, lanes) => {
                connections.handle_message(now, message);
                lanes.handle_message(now, message);
            }
            Phase::Exploring(_) | Phase::Measuring(_) => {}
        }
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.take_report(now);
        match &mut self.phase {
            Phase::Exploring(end) if now >= *end => {
                if let Some(known) = self.config.known {
                    self.decide(now, known);
                } else {
                    let train = TrainSender::new(now, self.config.datagram_len());
                    self.phase = Phase::Measuring(train);
                }
            }
            Phase::Measuring(train) if train.is_overdue(now) => {
                if let Some(measured) = train.handle_report(now, Report::default()) {
                    self.decide(now, measured);
                }
            }
            Phase::Lanes(lanes) => lanes.handle_timeout(now),
            Phase::Tcp(connections) => connections.handle_timeout(now),
            Phase::Switched(connections, lanes) => {
                connections.handle_timeout(now);
                lanes.handle_timeout(now);
            }
            Phase::Exploring(_) | Phase::Measuring(_) => {}
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.begin_lanes(now);
        match &mut self.phase {
            Phase::Exploring(_) => None,
            Phase::Measuring(train) => {
                let probe = train.poll(now)?.encode();
                let head = [&[Tag::Train.encode()], &probe[..]].concat();
                let rest = self.config.datagram_len() - head.len() as u32;
                Some(Transmit {
                    via: Via::Datagram,
                    head: Head::new(&head),
                    body: Body::Object(Span::new(0, rest)),
                })
            }
            Phase::Lanes(lanes) => lanes.poll_and_settle(now),
            Phase::Switched(connections, lanes) => {
                let transmit = connections.poll_transmit(now);
                transmit.or_else(|| {
                    lanes.set_streamed(connections.packets());
                    lanes.poll_and_settle(now)
                })
            }
            Phase::Tcp(connections) => {
                let transmit = connections.poll_transmit(now);
                let mut shared = self.shared.borrow_mut();
                (shared.sent, shared.resent) = connections.packets();
                transmit
            }
        }
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let due = match &self.phase {
            Phase::Exploring(end) => *end,
            Phase::Measuring(train) => train.due(),
            Phase::Lanes(lanes) => lanes.due().min(self.report),
            Phase::Tcp(connections) if self.switch.is_some() => connections.due().min(self.report),
            Phase::Tcp(connections) => connections.due(),
            Phase::Switched(connections, lanes) => {
                connections.due().min(lanes.due()).min(self.report)
            }
        };
        (due < Instant::NEVER).then_some(Deadline {
            at: due,
            why: "transfer",
        })
    }
}

/// Parallel connections of TCP.
#[derive(Debug)]
struct Connections {
    senders: Vec<tcp::Sender>,
    width: Width,
    segment_len: u32,
    /// Number of packets up to the last object; none while more objects follow.
    last: Option<u64>,
}

impl Connections {
    fn new(now: Instant, config: &TransferConfig, most: u8) -> Self {
        let tcp = tcp::Config {
            algorithm: config.algorithm,
            packet_len: config.segment_len(),
        };
        let sender = |nth| tcp::Sender::new(now, tcp, config.seed + u64::from(nth));
        let width = if most == 1 {
            Width::fixed(1)
        } else {
            Width::measured(most.into(), config.rtt)
        };
        let mut connections = Self {
            senders: (0..most).map(sender).collect(),
            width,
            segment_len: config.segment_len(),
            last: None,
        };
        connections.allow();
        connections
    }

    /// Sends no object after the present one, of about `len` bytes.
    fn end_object(&mut self, len: u64) {
        let (sent, resent) = self.packets();
        let object = len.div_ceil(self.segment_len.into());
        self.last = Some((sent - resent).div_ceil(object) * object);
    }

    /// Returns the end of the last object in bytes, once all of its packets were sent.
    fn object_end(&self) -> Option<u64> {
        let (sent, resent) = self.packets();
        let last = self.last.filter(|last| sent - resent >= *last)?;
        Some(last * u64::from(self.segment_len))
    }

    /// Permits as many connections to send as increase the goodput.
    fn allow(&mut self) {
        let used = usize::from(self.width.streams());
        for (nth, sender) in self.senders.iter_mut().enumerate() {
            sender.allow_new(nth < used);
        }
    }

    fn handle_message(&mut self, now: Instant, message: Message<'_>) {
        let Some((tag, head)) = message.head.split_first() else {
            return;
        };
        if let Tag::Tcp(connection) = Tag::decode(*tag)
            && let Some(sender) = self.senders.get_mut(usize::from(connection))
        {
            sender.handle_message(now, Message { head, ..message });
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for sender in &mut self.senders {
            if sender.poll_timeout().is_some_and(|due| due.at <= now) {
                sender.handle_timeout(now);
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        for (nth, sender) in self.senders.iter_mut().enumerate() {
            if let Some(transmit) = sender.poll_transmit(now) {
                let (sent, resent) = sender.sent();
                if self.last.is_some_and(|last| sent - resent >= last) {
                    sender.allow_new(false);
                }
                let before = self.width.streams();
                self.width.handle_sent(now, self.segment_len);
                if self.width.streams() != before {
                    self.allow();
                }
                return Some(tagged(transmit, Tag::Tcp(nth as u8)));
            }
        }
        None
    }

    fn due(&self) -> Instant {
        let dues = self.senders.iter().filter_map(Endpoint::poll_timeout);
        dues.map(|due| due.at).min().unwrap_or(Instant::NEVER)
    }

    fn packets(&self) -> (u64, u64) {
        let counts = self.senders.iter().map(tcp::Sender::sent);
        counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
    }
}
