//! Many flows over shared links, in virtual time.

use alloc::vec::Vec;

use lighthaul_base::{Endpoint, Instant, Load, Rate, Rng};

use crate::flow::{Flow, FlowConfig, FlowEvent};
use crate::host::HostConfig;
use crate::link::{Link, LinkConfig};

/// Simulation of pairs of protocol machines over shared links.
///
/// Only lengths are simulated, not bytes: the span that a body was read from identifies its content.
#[derive(Debug)]
pub struct Network<L, R> {
    now: Instant,
    rng: Rng,
    links: Vec<Link>,
    flows: Vec<Flow<L, R>>,
}

impl<L: Endpoint, R: Endpoint> Network<L, R> {
    /// Returns a network of `links` without flows. All random numbers derive from `seed`.
    pub fn new(links: impl IntoIterator<Item = LinkConfig>, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let link = |config| Link::new(config, rng.next_u64());
        let links = links.into_iter().map(link).collect();
        Self {
            now: Instant::ZERO,
            rng,
            links,
            flows: Vec::new(),
        }
    }

    /// Makes all flows added so far check that each body reaches the right machine exactly once, at its own offset. A
    /// violation panics during [`Network::run`].
    #[must_use]
    pub fn with_ledgers(mut self) -> Self {
        for flow in &mut self.flows {
            flow.keep_ledger();
        }
        self
    }

    /// Adds two machines that start at `config.start`, and returns the number of the flow. Panics if `config` names
    /// an unknown link or a start in the past.
    pub fn add(&mut self, left: L, right: R, config: &FlowConfig) -> usize {
        let links = config.there.links.iter().chain(&config.back.links);
        for link in links {
            assert!(*link < self.links.len(), "the network has no link {link}");
        }
        assert!(
            config.start >= self.now,
            "a flow must not start in the past"
        );
        let seed = self.rng.next_u64();
        self.flows.push(Flow::new(left, right, config, seed));
        self.flows.len() - 1
    }

    /// Runs until `till`, or until no event is left. Passes each machine event to `on_event` and returns the time
    /// reached.
    pub fn run(
        &mut self,
        till: Instant,
        mut on_event: impl FnMut(Instant, usize, FlowEvent<L::Event, R::Event>),
    ) -> Instant {
        let mut idle = 0;
        while let Some((at, nth)) = self.next() {
            if at > till {
                self.now = till;
                break;
            }
            idle = if at > self.now { 0 } else { idle + 1 };
            assert!(
                idle < IDLE_MAX,
                "endless events at {at}: a machine keeps asking for an immediate timeout"
            );
            self.now = at;
            self.flows[nth].run_next(at, &mut self.links, &mut |event| on_event(at, nth, event));
        }
        self.now
    }

    /// Passes a load sample to the right machine of flow `nth`. The network must have run until `at`, and no event
    /// may be due before.
    pub fn handle_load(
        &mut self,
        at: Instant,
        nth: usize,
        load: Load,
        mut on_event: impl FnMut(Instant, usize, FlowEvent<L::Event, R::Event>),
    ) {
        self.skip(at);
        let flow = &mut self.flows[nth];
        flow.right.machine.handle_load(at, load);
        flow.drain_right(at, &mut self.links, &mut |event| on_event(at, nth, event));
        flow.schedule_next(at);
    }

    /// Passes a new target rate to the left machine of flow `nth`. The network must have run until `at`, and no event
    /// may be due before.
    pub fn handle_rate(
        &mut self,
        at: Instant,
        nth: usize,
        rate: Rate,
        mut on_event: impl FnMut(Instant, usize, FlowEvent<L::Event, R::Event>),
    ) {
        self.skip(at);
        let flow = &mut self.flows[nth];
        flow.left.machine.handle_rate(at, rate);
        flow.drain_left(at, &mut self.links, &mut |event| on_event(at, nth, event));
        flow.schedule_next(at);
    }

    /// Changes the parameters of link `nth`. The network must have run until `at`, and no event may be due before.
    pub fn change_link(&mut self, at: Instant, nth: usize, config: LinkConfig) {
        self.skip(at);
        self.links[nth].change(at, config);
    }

    /// Changes the parameters of the host of flow `nth`, under the same conditions. Datagrams in its buffer are
    /// received as they would have been.
    pub fn change_host(&mut self, at: Instant, nth: usize, config: HostConfig) {
        self.skip(at);
        let seed = self.rng.next_u64();
        self.flows[nth].change_host(config, seed);
    }

    /// Returns the current time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the flows by number.
    pub fn flows(&self) -> &[Flow<L, R>] {
        &self.flows
    }

    /// Returns the links by number.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the time of the next event, and the number of the event's flow.
    fn next(&self) -> Option<(Instant, usize)> {
        let nexts = self.flows.iter().map(Flow::next_at).zip(0..);
        nexts.min().filter(|(at, _)| *at < Instant::NEVER)
    }

    /// Advances the time to `till` without an event.
    fn skip(&mut self, till: Instant) {
        let next = self.next().map_or(Instant::NEVER, |(at, _)| at);
        assert!(
            self.now <= till && till <= next,
            "run the network until {till} first"
        );
        self.now = till;
    }
}

/// Maximum number of events at one time. A machine exceeds it only if it keeps asking for an immediate timeout.
const IDLE_MAX: u64 = 1 << 32;
