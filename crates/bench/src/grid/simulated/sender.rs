//! Sending side of a simulated transfer.
//!
//! ```text
//! Exploring -- one round trip --> Measuring -- two trains --> Lanes or Tcp
//!     \--------- remembered rate --------------------------/
//! ```

use std::time::Duration;

use lighthaul_base::{Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Via};
use lighthaul_proto::stripe::Width;
use lighthaul_session::choose::{PathFacts, choose};
use lighthaul_session::protocol::Protocol;
use lighthaul_workload::tcp;

use super::agreement::{REPORTS, Shared, Tag, TransferConfig};
use super::lanes::{Lanes, tagged};
use super::train::{Report, TrainSender};

/// Maximum number of connections of parallel TCP.
const CONNECTIONS_MAX: u8 = 32;
/// Interval of the receiver's reports about arrivals, as in a copy.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of the receiver's reports about drops on its host, as in a copy.
const DROPS_INTERVAL: Duration = Duration::from_millis(100);

/// Sending side.
#[derive(Debug)]
pub(crate) struct TransferSender {
    config: TransferConfig,
    shared: Shared,
    phase: Phase,
    /// Time of the next report about arrivals.
    report: Instant,
    /// Time of the next report about drops, and the drops by the last.
    drops: (Instant, u64),
}

#[derive(Debug)]
enum Phase {
    Exploring(Instant),
    Measuring(TrainSender),
    Lanes(Box<Lanes>),
    Tcp(Connections),
}

impl TransferSender {
    /// Starts a transfer.
    pub(crate) fn new(now: Instant, config: TransferConfig, shared: Shared) -> Self {
        let mut sender = Self {
            phase: Phase::Exploring(now + config.rtt),
            config,
            shared,
            report: now,
            drops: (now, 0),
        };
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
        let protocol = config.asked.unwrap_or_else(|| {
            choose(&PathFacts {
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
            })
            .protocol
        });
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

    /// Takes the reports of the receiver that are due.
    fn take_reports(&mut self, now: Instant) {
        let shared = self.shared.borrow();
        let (drops, counts) = (shared.host_drops, (shared.sent, shared.arrived));
        drop(shared);
        let (at, before) = self.drops;
        if let Phase::Lanes(lanes) = &mut self.phase {
            if now >= at {
                lanes.rate.handle_drops(now, drops > before);
            }
            if now >= self.report {
                lanes.rate.handle_arrivals(now, counts.0, counts.1);
            }
        }
        if now >= at {
            self.drops = (now + DROPS_INTERVAL, drops);
        }
        if now >= self.report {
            self.report = now + REPORT_INTERVAL;
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
            Phase::Exploring(_) | Phase::Measuring(_) => {}
        }
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.take_reports(now);
        match &mut self.phase {
            Phase::Exploring(end) if now >= *end => {
                if let Some(known) = self.config.known {
                    self.decide(now, known);
                } else {
                    let train = TrainSender::new(now, self.config.datagram_len());
                    self.phase = Phase::Measuring(train);
                }
            }
            Phase::Lanes(lanes) => lanes.handle_timeout(now),
            Phase::Tcp(connections) => connections.handle_timeout(now),
            Phase::Exploring(_) | Phase::Measuring(_) => {}
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
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
            Phase::Lanes(lanes) => lanes.poll_transmit(now).or_else(|| {
                // a new object or rate may have more to send at once
                let has_more = lanes.settle(now);
                has_more.then(|| lanes.poll_transmit(now)).flatten()
            }),
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
            Phase::Measuring(train) => train.due().unwrap_or(Instant::NEVER),
            Phase::Lanes(lanes) => lanes.due().min(self.report).min(self.drops.0),
            Phase::Tcp(connections) => connections.due(),
        };
        (due < Instant::NEVER).then_some(Deadline {
            at: due,
            why: "transfer",
        })
    }
}

/// Parallel connections of TCP, each with BBR.
#[derive(Debug)]
struct Connections {
    senders: Vec<tcp::Sender>,
    width: Width,
    segment_len: u32,
}

impl Connections {
    fn new(now: Instant, config: &TransferConfig, most: u8) -> Self {
        let tcp = tcp::Config {
            algorithm: tcp::Algorithm::Bbr,
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
        };
        connections.allow();
        connections
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
