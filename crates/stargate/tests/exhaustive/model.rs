//! State of a small world, and the events that can happen in it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Rate};
use lighthaul_stargate::{
    Config, CorrelationId, Domain, DomainId, DomainLink, Hop, Key, Message, Offer, Outcome, Output,
    Policy, PortId, Record, Refusal, Resources, Segment, Stage, StoredReservation, StoredStage,
    Timing, Topology,
};

/// Order of the messages, and channels of the domains at the ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setup {
    Chain { ends: usize },
    Tree { ends: usize },
}

/// Faults that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) losses: u8,
    pub(crate) copies: u8,
    pub(crate) crashes: u8,
    /// Timers that may fire while messages are on their way.
    pub(crate) delays: u8,
}

/// Event of a world. Messages are named by their index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Deliver(usize),
    Lose(usize),
    /// Delivers and keeps a copy.
    Copy(usize),
    /// Delivers, stores the records, and crashes before a message leaves.
    DeliverAndCrash(usize),
    Timeout(usize),
    TimeoutAndCrash(usize),
    Crash(usize),
}

/// Constant part of a world.
pub(crate) struct Scene {
    setup: Setup,
    vector: Trc,
}

/// Channels of one domain.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    most: usize,
    held: BTreeSet<Key>,
}

impl Resources for Channels {
    fn free(&mut self, _: Segment, _: Instant, _: Instant) -> Result<Offer, Refusal> {
        Err(Refusal::NoCapacity)
    }

    fn hold(&mut self, _: Instant, key: Key, _: &[Segment], _: &Trc) -> Result<(), Refusal> {
        if self.held.len() >= self.most {
            return Err(Refusal::NoCapacity);
        }
        self.held.insert(key);
        Ok(())
    }

    fn commit(&mut self, _: Instant, key: Key) {
        assert!(self.held.contains(&key));
    }

    fn release_segment(&mut self, _: Instant, _: Key, _: Segment) {}

    fn release(&mut self, _: Instant, key: Key) {
        self.held.remove(&key);
    }
}

#[derive(Clone)]
struct Node {
    domain: Domain<Channels>,
    store: BTreeMap<Key, StoredReservation>,
}

/// Variable part of a world.
#[derive(Clone)]
pub(crate) struct State {
    now: Instant,
    /// Shared with the states before, since an event changes one of them.
    nodes: [Rc<Node>; 3],
    /// Sender, receiver and octets of each message, in order.
    messages: Vec<(DomainId, DomainId, Rc<[u8]>)>,
    /// For each request: reported as committed, any outcome, source crashed.
    reports: [(bool, bool, bool); 2],
    budget: Budget,
}

const BEGIN: Instant = Instant::from_nanos(1_000_000_000_000);

const fn after(secs: u64) -> Instant {
    Instant::from_nanos(BEGIN.as_nanos() + secs * 1_000_000_000)
}

impl Scene {
    pub(crate) fn new(setup: Setup) -> Self {
        let step = Step {
            from: after(20),
            till: after(60),
            rate: Rate::from_mbps(100),
        };
        let vector = Trc::new(vec![step]).unwrap();
        Self { setup, vector }
    }

    fn config(&self, me: u32) -> Config {
        let seconds = Duration::from_secs;
        let others = (0..3).filter(|other| match self.setup {
            Setup::Chain { .. } => me.abs_diff(*other) == 1,
            Setup::Tree { .. } => me != *other,
        });
        Config {
            me: DomainId(me),
            neighbors: others
                .map(|other| (DomainId(other), Policy::default()))
                .collect(),
            timing: Timing {
                query: seconds(1),
                hold: seconds(10),
                decide: seconds(10),
                hold_max: seconds(30),
                retry: seconds(25),
                retry_max: seconds(100),
                refresh: seconds(25),
                linger: seconds(2000),
                // the clocks of this model have no offset, and its messages take any time
                clock_tolerance: seconds(1000),
            },
            paths_max: 1,
            rounds_max: 1,
        }
    }

    fn resources(&self, me: u32) -> Channels {
        let (Setup::Chain { ends } | Setup::Tree { ends }) = self.setup;
        Channels {
            most: if me == 1 { 1 } else { ends },
            held: BTreeSet::new(),
        }
    }

    /// Returns the legs of the request from one end to the other.
    fn legs(&self, from: u32) -> Vec<Vec<Hop>> {
        let hop = |domain, ingress, egress| Hop {
            domain: DomainId(domain),
            segment: Segment {
                ingress: PortId(ingress),
                egress: PortId(egress),
            },
        };
        // port 1 joins the domains 0 and 1, port 2 the domains 1 and 2
        let (first, second) = if from == 0 { (1, 2) } else { (2, 1) };
        let hops = vec![hop(1, first, second), hop(2 - from, second, 100)];
        match self.setup {
            Setup::Chain { .. } => vec![hops],
            Setup::Tree { .. } => hops.into_iter().map(|hop| vec![hop]).collect(),
        }
    }
}

/// Returns three domains in a row.
fn topology() -> Topology {
    let link = |port, from, to| DomainLink {
        port: PortId(port),
        from: DomainId(from),
        to: DomainId(to),
        cost: 1,
    };
    Topology::new(&[link(1, 0, 1), link(1, 1, 0), link(2, 1, 2), link(2, 2, 1)])
}

impl State {
    pub(crate) fn new(scene: &Scene, budget: Budget) -> Self {
        let node = |me| {
            Rc::new(Node {
                domain: Domain::new(scene.config(me), topology(), scene.resources(me), 1),
                store: BTreeMap::new(),
            })
        };
        let mut state = Self {
            now: BEGIN,
            nodes: [0, 1, 2].map(node),
            messages: Vec::new(),
            reports: [(false, false, false); 2],
            budget,
        };
        for (nth, me) in [0, 2].into_iter().enumerate() {
            let segment = Segment {
                ingress: PortId(1),
                egress: PortId(2),
            };
            let parts = (vec![segment], scene.legs(me));
            let key = Key {
                source: DomainId(me),
                id: CorrelationId(nth as u128),
                attempt: 0,
                leg: 0,
            };
            let domain = &mut state.node(me as usize).domain;
            domain
                .reserve(BEGIN, key, parts, (scene.vector.clone(), Duration::ZERO))
                .unwrap();
            state.drain(me as usize, true);
        }
        state
    }

    fn node(&mut self, nth: usize) -> &mut Node {
        Rc::make_mut(&mut self.nodes[nth])
    }

    /// Returns a hash of everything that determines the future.
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        let budget = self.budget;
        let budget = [budget.losses, budget.copies, budget.crashes, budget.delays];
        (self.now, self.reports, budget).hash(&mut digest);
        self.messages.hash(&mut digest);
        for node in &self.nodes {
            for live in node.domain.reservations() {
                live.hash(&mut digest);
            }
            for (key, stored) in &node.store {
                (key, stored.stage).hash(&mut digest);
            }
            digest.write_u8(0);
        }
        digest.finish()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        // losses and crashes end with the decision, as a partition that heals
        let is_faulty = self.now <= after(20);
        for nth in 0..self.messages.len() {
            if nth > 0 && self.messages[nth] == self.messages[nth - 1] {
                continue;
            }
            events.push(Event::Deliver(nth));
            if is_faulty && self.budget.losses > 0 {
                events.push(Event::Lose(nth));
            }
            if self.budget.copies > 0 {
                events.push(Event::Copy(nth));
            }
            if is_faulty && self.budget.crashes > 0 {
                events.push(Event::DeliverAndCrash(nth));
            }
        }
        let timers = self.nodes.iter().map(|node| node.domain.poll_timeout());
        let first = timers.clone().flatten().min();
        for (nth, timer) in timers.enumerate() {
            let is_first = timer == first && timer.is_some_and(|at| self.may_pass(at));
            if is_first {
                events.push(Event::Timeout(nth));
                if is_faulty && self.budget.crashes > 0 {
                    events.push(Event::TimeoutAndCrash(nth));
                }
            }
            let is_idle = self.nodes[nth].store.is_empty();
            if is_faulty && self.budget.crashes > 0 && !is_idle {
                events.push(Event::Crash(nth));
            }
        }
        events
    }

    /// Returns true if time may pass to the next timer.
    fn may_pass(&self, at: Instant) -> bool {
        at == self.now || self.messages.is_empty() || self.budget.delays > 0
    }

    pub(crate) fn apply(&mut self, scene: &Scene, event: Event) {
        match event {
            Event::Deliver(nth) => {
                let to = self.deliver(nth, false);
                self.drain(to, true);
            }
            Event::Copy(nth) => {
                self.budget.copies -= 1;
                let to = self.deliver(nth, true);
                self.drain(to, true);
            }
            Event::Lose(nth) => {
                self.budget.losses -= 1;
                self.messages.remove(nth);
            }
            Event::DeliverAndCrash(nth) => {
                let to = self.deliver(nth, false);
                self.drain(to, false);
                self.crash(scene, to);
            }
            Event::Timeout(nth) => {
                self.timeout(nth);
                self.drain(nth, true);
            }
            Event::TimeoutAndCrash(nth) => {
                self.timeout(nth);
                self.drain(nth, false);
                self.crash(scene, nth);
            }
            Event::Crash(nth) => self.crash(scene, nth),
        }
        self.messages.sort();
        self.check_capacity();
    }

    fn deliver(&mut self, nth: usize, is_kept: bool) -> usize {
        let (from, to, octets) = self.messages[nth].clone();
        let message = Message::decode(&octets).unwrap();
        if !is_kept {
            self.messages.remove(nth);
        }
        let now = self.now;
        let domain = &mut self.node(to.0 as usize).domain;
        domain.handle_message(now, from, message);
        to.0 as usize
    }

    fn timeout(&mut self, nth: usize) {
        let at = self.nodes[nth].domain.poll_timeout().unwrap();
        assert!(at >= self.now, "a timer is overdue");
        if at > self.now && !self.messages.is_empty() {
            self.budget.delays -= 1;
        }
        self.now = at;
        self.node(nth).domain.handle_timeout(at);
    }

    fn crash(&mut self, scene: &Scene, nth: usize) {
        self.budget.crashes -= 1;
        let me = nth as u32;
        if me != 1 {
            self.reports[nth / 2].2 = true;
        }
        let parts = (scene.config(me), topology(), scene.resources(me));
        let records = self.nodes[nth].store.values().cloned().map(Record::Put);
        let restored = Domain::restore(parts, 1, records, self.now);
        self.node(nth).domain = restored;
        self.drain(nth, true);
    }

    /// Carries out the outputs of a domain. Without `is_alive`, only records reach the store.
    fn drain(&mut self, nth: usize, is_alive: bool) {
        while let Some(output) = self.node(nth).domain.poll_output() {
            match output {
                Output::Persist { sequence, record } => {
                    record.apply(&mut self.node(nth).store);
                    if is_alive {
                        self.node(nth).domain.handle_persisted(sequence);
                    }
                }
                Output::Send { to, message } if is_alive => {
                    // the age of a message does not matter here
                    let sent = BEGIN;
                    let octets = Message { sent, ..message }.encode();
                    self.messages
                        .push((DomainId(nth as u32), to, octets.into()));
                }
                Output::Outcome { id, outcome } if is_alive => self.report(id, &outcome),
                Output::Send { .. }
                | Output::Outcome { .. }
                | Output::Program { .. }
                | Output::KeepOnly { .. }
                | Output::Unprogram { .. }
                | Output::RangeDone { .. } => {}
            }
        }
    }

    /// A path that is reported as committed is durable in all domains.
    fn report(&mut self, id: CorrelationId, outcome: &Outcome) {
        let report = &mut self.reports[id.0 as usize];
        report.1 = true;
        if matches!(outcome, Outcome::Committed { .. }) && !report.0 {
            report.0 = true;
            for node in &self.nodes {
                let mut stored = node.store.values();
                let stored = stored.find(|stored| stored.key.id == id);
                let stage = stored.map(|stored| stored.stage);
                assert_eq!(
                    stage,
                    Some(StoredStage::Committed),
                    "{id:?} is half-committed"
                );
            }
        }
    }

    fn check_capacity(&self) {
        for node in &self.nodes {
            let held = node.domain.reservations().filter(|one| one.is_held());
            let held: BTreeSet<Key> = held.map(lighthaul_stargate::Reservation::key).collect();
            let channels = node.domain.resources();
            assert_eq!(held, channels.held, "calendar and reservations differ");
            assert!(held.len() <= channels.most);
        }
    }

    /// Checks that all domains agree, in a state after the longest timeout in which no message is on its way.
    pub(crate) fn check_agreement(&self, scene: &Scene) -> bool {
        let timers = self.nodes.iter().map(|node| node.domain.poll_timeout());
        let next = timers.flatten().min();
        let is_late = next.is_none_or(|next| next >= scene.vector.end());
        if !self.messages.is_empty() || !is_late || self.now >= scene.vector.end() {
            return false;
        }
        for id in [0, 1].map(CorrelationId) {
            let stages = self.nodes.iter().map(|node| {
                let mut all = node.domain.reservations();
                let one = all.find(|one| one.key().id == id);
                one.map_or(Stage::Closed, lighthaul_stargate::Reservation::stage)
            });
            let stages: Vec<Stage> = stages.collect();
            let committed = stages.iter().filter(|stage| **stage == Stage::Committed);
            let is_open = |stage: &Stage| match stage {
                Stage::Holding | Stage::Held | Stage::Committing => true,
                Stage::Committed | Stage::Closing | Stage::Closed => false,
            };
            assert!(!stages.iter().any(is_open), "a hold is left: {stages:?}");
            let committed = committed.count();
            assert!([0, 3].contains(&committed), "half-committed: {stages:?}");
        }
        true
    }

    /// Checks that nothing is left, and returns the set of committed requests as bits.
    pub(crate) fn check_end(&self) -> usize {
        for node in &self.nodes {
            assert_eq!(node.domain.reservations().count(), 0);
            assert!(node.store.is_empty() && node.domain.resources().held.is_empty());
        }
        for (_, has_outcome, has_crashed) in self.reports {
            assert!(has_outcome || has_crashed, "a request has no outcome");
        }
        usize::from(self.reports[0].0) | usize::from(self.reports[1].0) << 1
    }
}
