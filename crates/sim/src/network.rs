//! Many flows over links that they share, in virtual time.

use alloc::vec::Vec;

use lighthaul_base::{Endpoint, Instant, Load, Rate, Rng};

use crate::drive::Heard;
use crate::flow::{Flow, FlowConfig};
use crate::link::{Link, LinkConfig};

/// Runs pairs of machines over shared links until nothing more will happen.
///
/// It moves lengths, not bytes: a body is known by the span it was taken from.
#[derive(Debug)]
pub struct Network<L, R> {
    now: Instant,
    rng: Rng,
    links: Vec<Link>,
    flows: Vec<Flow<L, R>>,
}

impl<L: Endpoint, R: Endpoint> Network<L, R> {
    /// Links without flows; all chance descends from `seed`.
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

    /// Checks of all its flows from now on that each body goes to the right machine once, and where it
    /// belongs.
    #[must_use]
    pub fn with_ledgers(mut self) -> Self {
        for flow in &mut self.flows {
            flow.keep_ledger();
        }
        self
    }

    /// Adds two machines that begin at `config.start`; answers the flow's number.
    pub fn add(&mut self, left: L, right: R, config: &FlowConfig) -> usize {
        let links = config.there.links.iter().chain(&config.back.links);
        for link in links {
            assert!(*link < self.links.len(), "there is no link {link}");
        }
        assert!(config.start >= self.now, "a flow begins in the future");
        let seed = self.rng.next_u64();
        self.flows.push(Flow::new(left, right, config, seed));
        self.flows.len() - 1
    }

    /// Lets time pass until `till`, or until nothing more will happen; answers the last moment.
    pub fn run(
        &mut self,
        till: Instant,
        mut hear: impl FnMut(Instant, usize, Heard<L::Event, R::Event>),
    ) -> Instant {
        let mut idle = 0;
        while let Some((at, nth)) = self.next() {
            if at > till {
                self.now = till;
                break;
            }
            idle = if at > self.now { 0 } else { idle + 1 };
            assert!(idle < IDLE_MAX, "time stands still at {at}");
            self.now = at;
            self.flows[nth].happen(at, &mut self.links, &mut |heard| hear(at, nth, heard));
        }
        self.now
    }

    /// Tells the right machine of flow `nth` how its host is doing, at a moment that the network has run
    /// till.
    pub fn handle_load(
        &mut self,
        at: Instant,
        nth: usize,
        load: Load,
        mut hear: impl FnMut(Instant, usize, Heard<L::Event, R::Event>),
    ) {
        self.skip(at);
        let flow = &mut self.flows[nth];
        flow.right.machine.handle_load(at, load);
        flow.drain_right(at, &mut self.links, &mut |heard| hear(at, nth, heard));
        flow.look_ahead(at);
    }

    /// Tells the left machine of flow `nth` that another rate is wanted, from a moment that the network
    /// has run till.
    pub fn handle_rate(
        &mut self,
        at: Instant,
        nth: usize,
        rate: Rate,
        mut hear: impl FnMut(Instant, usize, Heard<L::Event, R::Event>),
    ) {
        self.skip(at);
        let flow = &mut self.flows[nth];
        flow.left.machine.handle_rate(at, rate);
        flow.drain_left(at, &mut self.links, &mut |heard| hear(at, nth, heard));
        flow.look_ahead(at);
    }

    /// The moment it is at.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The flows, by their numbers.
    pub fn flows(&self) -> &[Flow<L, R>] {
        &self.flows
    }

    /// The links, by their numbers.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// When something happens next, and in which flow.
    fn next(&self) -> Option<(Instant, usize)> {
        let nexts = self.flows.iter().map(Flow::next_at).zip(0..);
        nexts.min().filter(|(at, _)| *at < Instant::NEVER)
    }

    /// Lets time pass in which nothing happens.
    fn skip(&mut self, till: Instant) {
        let next = self.next().map_or(Instant::NEVER, |(at, _)| at);
        assert!(
            self.now <= till && till <= next,
            "the world runs till {till} first"
        );
        self.now = till;
    }
}

/// More than this happens at one moment only when a machine asks to be woken for nothing.
const IDLE_MAX: u64 = 1 << 32;
