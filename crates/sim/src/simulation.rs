//! Network of a single flow: two machines and one link in each direction.

use core::time::Duration;

use lighthaul_base::{Endpoint, Instant, Load, Rate};

use crate::flow::{Flow, FlowConfig, FlowEvent};
use crate::host::{Host, HostConfig};
use crate::ledger::Ledger;
use crate::link::{Link, LinkConfig};
use crate::network::Network;
use crate::route::RouteConfig;

/// Path between the left and the right machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathConfig {
    /// Link for datagrams from left to right.
    pub there: LinkConfig,
    /// Link for datagrams from right to left.
    pub back: LinkConfig,
    /// One-way delay of streams, in both directions.
    pub stream_delay: Duration,
    /// Rate of the streams of each direction; `None` is infinitely fast.
    pub stream_rate: Option<Rate>,
    /// Bytes that the lower layers add to the head and body of a datagram: IP, UDP and encryption.
    pub overhead_len: u32,
    /// Host of the right machine.
    pub host: HostConfig,
}

/// Network of one flow with one link in each direction.
#[derive(Debug)]
pub struct Simulation<L, R> {
    network: Network<L, R>,
}

impl<L: Endpoint, R: Endpoint> Simulation<L, R> {
    /// Returns a simulation at time zero. All random numbers derive from `seed`.
    pub fn new(left: L, right: R, config: &PathConfig, seed: u64) -> Self {
        let mut network = Network::new([config.there, config.back], seed);
        let route = |link| RouteConfig {
            access: Duration::ZERO,
            links: [link].into(),
        };
        let flow = FlowConfig {
            start: Instant::ZERO,
            there: route(THERE),
            back: route(BACK),
            stream_delay: config.stream_delay,
            stream_rate: config.stream_rate,
            streams_queue: false,
            overhead_len: config.overhead_len,
            host: config.host,
        };
        network.add(left, right, &flow);
        Self { network }
    }

    /// Makes [`Simulation::run`] panic if a body does not reach the right machine exactly once, at its own offset.
    #[must_use]
    pub fn with_ledger(self) -> Self {
        let network = self.network.with_ledgers();
        Self { network }
    }

    /// Runs until `till`, or until no event is left. Passes each machine event to `on_event` and returns the time
    /// reached.
    pub fn run(
        &mut self,
        till: Instant,
        mut on_event: impl FnMut(Instant, FlowEvent<L::Event, R::Event>),
    ) -> Instant {
        self.network.run(till, |now, _, event| on_event(now, event))
    }

    /// Passes a load sample to the right machine at `at`. The simulation must have run until `at`.
    pub fn handle_load(
        &mut self,
        at: Instant,
        load: Load,
        mut on_event: impl FnMut(Instant, FlowEvent<L::Event, R::Event>),
    ) {
        let on_event = |now, _, event| on_event(now, event);
        self.network.handle_load(at, 0, load, on_event);
    }

    /// Passes a new target rate to the left machine at `at`. The simulation must have run until `at`.
    pub fn handle_rate(
        &mut self,
        at: Instant,
        rate: Rate,
        mut on_event: impl FnMut(Instant, FlowEvent<L::Event, R::Event>),
    ) {
        let on_event = |now, _, event| on_event(now, event);
        self.network.handle_rate(at, 0, rate, on_event);
    }

    /// Returns the current time.
    pub const fn now(&self) -> Instant {
        self.network.now()
    }

    /// Returns the left machine.
    pub fn left(&self) -> &L {
        self.flow().left()
    }

    /// Returns the right machine.
    pub fn right(&self) -> &R {
        self.flow().right()
    }

    /// Returns the link that carries datagrams to the right.
    pub fn there(&self) -> &Link {
        &self.network.links()[THERE]
    }

    /// Returns the link that carries datagrams to the left.
    pub fn back(&self) -> &Link {
        &self.network.links()[BACK]
    }

    /// Returns the host of the right machine.
    pub fn host(&self) -> &Host {
        self.flow().host()
    }

    /// Returns the placed bytes if [`Simulation::with_ledger`] was called.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.flow().ledger()
    }

    fn flow(&self) -> &Flow<L, R> {
        &self.network.flows()[0]
    }
}

const THERE: usize = 0;
const BACK: usize = 1;
