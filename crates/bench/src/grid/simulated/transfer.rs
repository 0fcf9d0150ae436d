//! Simulation of one transfer, with its path, its host and its neighbor.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_session::protocol::Protocol;
use lighthaul_sim::{FlowConfig, HostConfig, Ledger, LinkConfig, Mixed, Network, RouteConfig};
use lighthaul_workload::tcp::{self, Algorithm};

use super::super::point::{Choice, Condition, Point};
use super::agreement::{OVERHEAD_LEN, Shared, TransferConfig};
use super::neighbor::Neighbor;
use super::receiver::TransferReceiver;
use super::scheduled_changes::{Change, Changed};
use super::sender::TransferSender;

/// Machines at the ends of the network: one of the transfer or of a neighboring flow.
type Left = Mixed<TransferSender, Neighbor>;
type Right = Mixed<TransferReceiver, tcp::Receiver>;

/// Transfer to simulate.
#[derive(Clone, Debug)]
pub(crate) struct Simulation {
    pub(crate) link: LinkConfig,
    pub(crate) host: HostConfig,
    /// Parameters of the transfer; none to measure a TCP flow instead of the transfer.
    pub(crate) transfer: Option<TransferConfig>,
    pub(crate) neighbor: Option<Algorithm>,
    /// Duration of the periods in which the neighbor sends and rests; none if it always sends.
    pub(crate) turn: Option<Duration>,
    /// Time that the neighbor runs before the transfer.
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
    pub(crate) changes: Vec<Change>,
    pub(crate) rtt: Duration,
    pub(crate) mtu: u32,
    pub(crate) seed: u64,
}

/// Result of a transfer.
// fields: all values that a table or a test reads
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) goodput: Rate,
    /// Goodput of the neighbor during the transfer.
    pub(crate) neighbor: Option<Rate>,
    pub(crate) protocol: Option<Protocol>,
    /// Rate that was measured before the data.
    pub(crate) measured: Option<Rate>,
    /// Time before the first data.
    pub(crate) before_data: Duration,
    /// Packets sent again, in percent of the packets sent.
    pub(crate) resent_percent: f64,
    /// Times at which rate changes began.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests of the controller"))]
    pub(crate) courses: Vec<Instant>,
    /// Times and values of all rates that were set.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests of the controller"))]
    pub(crate) rates: Vec<(Instant, Rate)>,
    /// Times at which objects began, and their lengths in bytes.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests of the controller"))]
    pub(crate) lens: Vec<(Instant, u64)>,
    /// Times at which objects began, and the numbers of lanes that had an object then.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests of the controller"))]
    pub(crate) busy: Vec<(Instant, usize)>,
    /// Times at which the protocol changed, and the new protocols.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests of the controller"))]
    pub(crate) switches: Vec<(Instant, Protocol)>,
    /// Bytes of the transfer that have been placed, if the transfer checks them.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests of the controller"))]
    pub(crate) ledger: Option<Ledger>,
    /// Positions and lengths of objects that were sent as a whole.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests of the controller"))]
    pub(crate) complete: Vec<(u64, u64)>,
    /// Packets that arrived although their bytes had arrived before, in percent of the packets sent.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests of the controller"))]
    pub(crate) duplicate_percent: f64,
}

impl Simulation {
    /// Describes the transfer of a choice over a point for a time.
    pub(crate) fn of(point: &Point, choice: Choice, time: Duration, seed: u64) -> Self {
        let loaded = point.condition == Condition::Loaded;
        let transfer = TransferConfig {
            asked: match choice {
                Choice::Auto => None,
                Choice::Fixed(protocol) => Some(protocol),
            },
            dedicated: point.condition.is_told_dedicated(),
            rtt: point.rtt,
            mtu: point.mtu(),
            known: None,
            waited: if loaded { LOADED_WAIT } else { 0 },
            socket_bytes: SOCKET_BYTES,
            lanes: LANES,
            algorithm: Algorithm::Bbr,
            is_checked: false,
            seed,
        };
        let uses_tcp = matches!(choice, Choice::Fixed(fixed) if !fixed.is_datagrams());
        let neighbor = match point.condition {
            Condition::Cubic => Some(Algorithm::Cubic),
            Condition::Bbr => Some(Algorithm::Bbr),
            Condition::Alone | Condition::Untold | Condition::Loaded | Condition::Changing => None,
        };
        let link = link(point);
        let halved = LinkConfig {
            rate: Some(point.rate.scaled(1, 2)),
            ..link
        };
        let change = Change {
            after: time / 2,
            what: Changed::Link(halved),
        };
        let is_changing = point.condition == Condition::Changing;
        Self {
            link,
            host: if loaded {
                host(point, uses_tcp)
            } else {
                HostConfig::default()
            },
            transfer: Some(transfer),
            neighbor,
            turn: None,
            warm_up: neighbor.map_or(Duration::ZERO, |_| WARM_UP + point.rtt * WARM_UP_TRIPS),
            time,
            changes: is_changing.then_some(change).into_iter().collect(),
            rtt: point.rtt,
            mtu: point.mtu(),
            seed,
        }
    }

    /// Returns the simulation with a TCP flow, like the neighbor, instead of the transfer.
    pub(crate) fn of_equals(self) -> Self {
        Self {
            transfer: None,
            ..self
        }
    }

    /// Runs the simulation.
    pub(crate) fn run(&self) -> Outcome {
        let mut network = Network::new([self.link], self.seed);
        let neighbor = self.neighbor.map(|algorithm| {
            let (left, right) = self.neighbor(Instant::ZERO, (algorithm, self.turn), 1);
            let flow = self.flow(Instant::ZERO, TCP_OVERHEAD_LEN, HostConfig::default());
            network.add(left, right, &flow)
        });
        let start = Instant::ZERO + self.warm_up;
        network.run(start, |_, _, _| ());
        let shared = Shared::default();
        let (left, right, overhead_len) = self.measured(start, &shared);
        let measured = network.add(left, right, &self.flow(start, overhead_len, self.host));
        let bytes =
            |network: &Network<Left, Right>, nth: usize| network.flows()[nth].placed_bytes();
        let before = neighbor.map(|nth| bytes(&network, nth));
        let mut at = start;
        let end = start + self.time;
        let mut changes = self.changes.iter().peekable();
        // counters of a changed host start at zero
        let mut dropped_before = 0;
        while at < end {
            at = (at + STEP).min(end);
            if let Some(change) = changes.peek() {
                at = at.min(start + change.after);
            }
            network.run(at, |_, _, _| ());
            let dropped = network.flows()[measured].host().counters().dropped_queue;
            shared.borrow_mut().facts.dropped = dropped_before + dropped.packets;
            while let Some(change) = changes.next_if(|change| start + change.after <= at) {
                match change.what {
                    Changed::Link(link) => network.change_link(at, 0, link),
                    Changed::Host(host) => {
                        dropped_before = shared.borrow().facts.dropped;
                        network.change_host(at, measured, host);
                    }
                }
            }
        }
        let neighbor = neighbor.zip(before);
        let goodput = Rate::of(bytes(&network, measured), self.time);
        let beside =
            neighbor.map(|(nth, before)| Rate::of(bytes(&network, nth) - before, self.time));
        let shared = shared.borrow();
        Outcome {
            goodput,
            neighbor: beside,
            protocol: shared.protocol,
            measured: shared.measured,
            before_data: shared.began.map_or(self.time, |began| began.since(start)),
            resent_percent: shared.resent as f64 * 100.0 / shared.sent.max(1) as f64,
            courses: shared.courses.clone(),
            rates: shared.rates.clone(),
            lens: shared.lens.clone(),
            busy: shared.busy.clone(),
            switches: shared.switches.clone(),
            ledger: shared.ledger.clone(),
            complete: shared.complete.clone(),
            duplicate_percent: shared.duplicates as f64 * 100.0 / shared.sent.max(1) as f64,
        }
    }

    /// Creates the machines of the measured transfer, with the bytes around their datagrams.
    fn measured(&self, start: Instant, shared: &Shared) -> (Left, Right, u32) {
        let Some(config) = self.transfer else {
            let algorithm = self.neighbor.unwrap_or(Algorithm::Cubic);
            let (left, right) = self.neighbor(start, (algorithm, None), 2);
            return (left, right, TCP_OVERHEAD_LEN);
        };
        let left = TransferSender::new(start, config, Shared::clone(shared));
        let right = TransferReceiver::new(&config, Shared::clone(shared));
        let (left, right) = (Left::First(Box::new(left)), Right::First(Box::new(right)));
        (left, right, OVERHEAD_LEN)
    }

    /// Creates the machines of a flow of TCP, with the duration of its turns.
    fn neighbor(
        &self,
        now: Instant,
        (algorithm, turn): (Algorithm, Option<Duration>),
        nth: u64,
    ) -> (Left, Right) {
        let packet_len = self.mtu - TCP_OVERHEAD_LEN - tcp::HEAD_LEN as u32;
        let seed = self.seed + nth;
        let sender = Neighbor::new(now, (algorithm, packet_len), turn, seed);
        let receiver = tcp::Receiver::new(packet_len);
        (
            Left::Second(Box::new(sender)),
            Right::Second(Box::new(receiver)),
        )
    }

    fn flow(&self, start: Instant, overhead_len: u32, host: HostConfig) -> FlowConfig {
        let way = self.rtt / 2;
        FlowConfig {
            start,
            there: RouteConfig {
                access: Duration::ZERO,
                links: vec![0],
            },
            back: RouteConfig {
                access: way,
                links: Vec::new(),
            },
            stream_delay: way,
            stream_rate: None,
            streams_queue: true,
            overhead_len,
            host,
        }
    }
}

fn link(point: &Point) -> LinkConfig {
    LinkConfig {
        rate: Some(point.rate),
        delay: point.rtt / 2,
        queue_bytes_max: point.queue_bytes(),
        loss_ppb: point.loss_ppb,
        ..LinkConfig::default()
    }
}

/// Returns a receiving host that has its processor for a third of the time. The kernel holds what
/// TCP has no room for at the sender, so nothing is dropped then.
fn host(point: &Point, uses_tcp: bool) -> HostConfig {
    HostConfig {
        absorb: Some(point.rate.scaled(2, 1)),
        socket_bytes_max: if uses_tcp { u64::MAX } else { SOCKET_BYTES },
        competitors: LOADED_TASKS,
        ..HostConfig::default()
    }
}

/// Lanes of a copy between hosts of two to five cores.
const LANES: u8 = 2;
const SOCKET_BYTES: u64 = 4 << 20;
/// Number of tasks beside a loaded receiver.
const LOADED_TASKS: u32 = 2;
/// Time that processes wait for a processor on a loaded receiver, in percent.
const LOADED_WAIT: u8 = 90;
/// Bytes that IP and TCP add to a segment, less the simulated head.
const TCP_OVERHEAD_LEN: u32 = 52 - tcp::HEAD_LEN as u32;
/// Interval at which the drops of the receiving host are read.
const STEP: Duration = Duration::from_millis(50);
/// Time that a neighbor has before the transfer starts.
const WARM_UP: Duration = Duration::from_secs(2);
const WARM_UP_TRIPS: u32 = 10;
