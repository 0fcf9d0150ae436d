//! Two machines and the world between them, in virtual time.

use core::time::Duration;

use lighthaul_base::{Endpoint, Instant, Load, Rate};

use crate::flow::{Flow, FlowConfig};
use crate::host::{Host, HostConfig};
use crate::ledger::Ledger;
use crate::link::{Link, LinkConfig};
use crate::network::Network;
use crate::route::RouteConfig;

/// What lies between a left and a right machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorldConfig {
    /// Datagrams from left to right.
    pub there: LinkConfig,
    /// Datagrams from right to left.
    pub back: LinkConfig,
    /// One-way delay of streams, in both directions.
    pub stream_delay: Duration,
    /// The rate of streams, in each direction by itself.
    pub stream_rate: Option<Rate>,
    /// Bytes on the wire of a datagram beyond its head and body: IP, UDP, seal.
    pub overhead_len: u32,
    /// The host of the right machine.
    pub host: HostConfig,
}

/// A network of one flow, with a link in each direction.
#[derive(Debug)]
pub struct World<L, R> {
    network: Network<L, R>,
}

/// What an owner gets to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<L, R> {
    /// From the left machine.
    Left(L),
    /// From the right machine.
    Right(R),
}

impl<L: Endpoint, R: Endpoint> World<L, R> {
    /// A world at its beginning; all chance descends from `seed`.
    pub fn new(left: L, right: R, config: &WorldConfig, seed: u64) -> Self {
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
            overhead_len: config.overhead_len,
            host: config.host,
        };
        network.add(left, right, &flow);
        Self { network }
    }

    /// Checks from now on that each body goes to the right machine once, and where it belongs.
    #[must_use]
    pub fn with_ledger(self) -> Self {
        let network = self.network.with_ledgers();
        Self { network }
    }

    /// Lets time pass until `till`, or until nothing more will happen; answers the last moment.
    pub fn run(
        &mut self,
        till: Instant,
        mut hear: impl FnMut(Instant, Heard<L::Event, R::Event>),
    ) -> Instant {
        self.network.run(till, |now, _, heard| hear(now, heard))
    }

    /// Tells the right machine how its host is doing at a moment that the world has run till.
    pub fn handle_load(
        &mut self,
        at: Instant,
        load: Load,
        mut hear: impl FnMut(Instant, Heard<L::Event, R::Event>),
    ) {
        let hear = |now, _, heard| hear(now, heard);
        self.network.handle_load(at, 0, load, hear);
    }

    /// Tells the left machine that another rate is wanted from a moment that the world has run
    /// till.
    pub fn handle_rate(
        &mut self,
        at: Instant,
        rate: Rate,
        mut hear: impl FnMut(Instant, Heard<L::Event, R::Event>),
    ) {
        let hear = |now, _, heard| hear(now, heard);
        self.network.handle_rate(at, 0, rate, hear);
    }

    /// The moment it is at.
    pub const fn now(&self) -> Instant {
        self.network.now()
    }

    /// The left machine.
    pub fn left(&self) -> &L {
        self.flow().left()
    }

    /// The right machine.
    pub fn right(&self) -> &R {
        self.flow().right()
    }

    /// The link that carries datagrams to the right.
    pub fn there(&self) -> &Link {
        &self.network.links()[THERE]
    }

    /// The link that carries datagrams to the left.
    pub fn back(&self) -> &Link {
        &self.network.links()[BACK]
    }

    /// The host of the right machine.
    pub fn host(&self) -> &Host {
        self.flow().host()
    }

    /// What was placed, if [`World::with_ledger`] asked for it.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.flow().ledger()
    }

    fn flow(&self) -> &Flow<L, R> {
        &self.network.flows()[0]
    }
}

const THERE: usize = 0;
const BACK: usize = 1;
