//! Domains in a chain, in virtual time. Nothing is lost, and a record is stored at once.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::{
    Calendar, Config as CalendarConfig, Link, Owner, Topology as LinksInside,
};
use lighthaul_stargate::{
    CalendarResources, Config, CorrelationId, Domain, DomainId, DomainLink, Message, Outcome,
    Output, Policy, PortId, Request, Timing, Topology,
};

/// Network of domains 1 to `domains`.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of domains.
    pub domains: u32,
    /// Delay of a message between neighbors in the chain; messages between others take the sum.
    pub delay: Duration,
    /// Capacity of each link, in each direction.
    pub capacity: Rate,
    /// Unit of rates.
    pub channel: Rate,
    /// True if each domain signals with all others, as a tree needs.
    pub knows_all: bool,
    /// Timers of all domains.
    pub timing: Timing,
}

/// Running network.
#[derive(Debug)]
pub struct Network {
    shape: Shape,
    domains: BTreeMap<DomainId, Domain<CalendarResources>>,
    events: BTreeMap<(Instant, u64), Event>,
    next: u64,
    /// Time of the wake-up that is planned for each domain.
    planned: BTreeMap<DomainId, Instant>,
    now: Instant,
    outcomes: BTreeMap<CorrelationId, (Instant, Outcome)>,
}

#[derive(Debug)]
enum Event {
    Deliver(DomainId, DomainId, Message),
    Wake(DomainId),
    Request(DomainId, Request),
}

impl Network {
    /// Returns a network without any request.
    pub fn new(shape: Shape) -> Self {
        let all = || (1..=shape.domains).map(DomainId);
        let topology = shape.topology();
        let domains = all().map(|me| {
            let near = |other: &DomainId| shape.knows_all || me.0.abs_diff(other.0) == 1;
            let neighbors = all().filter(|other| *other != me).filter(near);
            let policy = Policy {
                reservations_max: usize::MAX,
                ..Policy::default()
            };
            let config = Config {
                me,
                neighbors: neighbors.map(|other| (other, policy)).collect(),
                timing: shape.timing,
                paths_max: 1,
                rounds_max: 1,
            };
            let seed = u64::from(me.0);
            (
                me,
                Domain::new(config, topology.clone(), shape.resources(me), seed),
            )
        });
        Self {
            domains: domains.collect(),
            shape,
            events: BTreeMap::new(),
            next: 0,
            planned: BTreeMap::new(),
            now: Instant::ZERO,
            outcomes: BTreeMap::new(),
        }
    }

    /// Makes requests at their times, each in its source domain. Returns the first outcome of each, with its time.
    pub fn run(
        mut self,
        requests: Vec<(Instant, DomainId, Request)>,
    ) -> BTreeMap<CorrelationId, (Instant, Outcome)> {
        let open = requests.len();
        for (at, from, request) in requests {
            self.plan(at, Event::Request(from, request));
        }
        while self.outcomes.len() < open {
            let Some(((at, _), event)) = self.events.pop_first() else {
                break;
            };
            self.now = at;
            self.handle(event);
        }
        self.outcomes
    }

    fn plan(&mut self, at: Instant, event: Event) {
        self.events.insert((at, self.next), event);
        self.next += 1;
    }

    fn handle(&mut self, event: Event) {
        let me = match &event {
            Event::Deliver(_, me, _) | Event::Wake(me) | Event::Request(me, _) => *me,
        };
        let Some(domain) = self.domains.get_mut(&me) else {
            return;
        };
        match event {
            Event::Deliver(from, _, message) => domain.handle_message(self.now, from, message),
            Event::Request(_, request) => domain.request(self.now, request),
            Event::Wake(_) if self.planned.get(&me) == Some(&self.now) => {
                self.planned.remove(&me);
                domain.handle_timeout(self.now);
            }
            Event::Wake(_) => return,
        }
        self.drain(me);
    }

    fn drain(&mut self, me: DomainId) {
        while let Some(output) = self.domains.get_mut(&me).and_then(Domain::poll_output) {
            match output {
                Output::Persist { sequence, .. } => {
                    if let Some(domain) = self.domains.get_mut(&me) {
                        domain.handle_persisted(sequence);
                    }
                }
                Output::Send { to, message } => {
                    let at = self.now + self.shape.delay * me.0.abs_diff(to.0);
                    self.plan(at, Event::Deliver(me, to, message));
                }
                Output::Outcome { id, outcome } => {
                    self.outcomes.entry(id).or_insert((self.now, outcome));
                }
                Output::Program { .. }
                | Output::KeepOnly { .. }
                | Output::Unprogram { .. }
                | Output::RangeDone { .. } => {}
            }
        }
        let wake = self.domains.get(&me).and_then(Domain::poll_timeout);
        if let Some(wake) = wake.map(|at| at.max(self.now))
            && self.planned.get(&me) != Some(&wake)
        {
            self.planned.insert(me, wake);
            self.plan(wake, Event::Wake(me));
        }
    }
}

impl Shape {
    fn topology(&self) -> Topology {
        let links = (1..self.domains).flat_map(|nth| {
            let link = |from, to| DomainLink {
                port: PortId(nth),
                from: DomainId(from),
                to: DomainId(to),
                cost: 1,
            };
            [link(nth, nth + 1), link(nth + 1, nth)]
        });
        Topology::new(&links.collect::<Vec<_>>())
    }

    /// Returns an empty calendar: links to both neighbors and to the users, joined by a core without limits.
    fn resources(&self, me: DomainId) -> CalendarResources {
        let ports = [me.0 - 1, me.0]
            .into_iter()
            .filter(|port| (1..self.domains).contains(port));
        let ports: Vec<u32> = ports.chain([access(me).0]).collect();
        let name = |port: &u32| format!("p{port}");
        let links = ports.iter().flat_map(|port| {
            // only links between domains are scarce
            let capacity = if *port == access(me).0 {
                self.capacity.scaled(1000, 1)
            } else {
                self.capacity
            };
            let link = |way: &str, from: String, to: String| Link {
                name: format!("{way}{port}"),
                from,
                to,
                capacity,
                channel: self.channel,
                guard: Duration::ZERO,
                cost: 1,
            };
            let core = || "core".to_owned();
            [
                link("in", name(port), core()),
                link("out", core(), name(port)),
            ]
        });
        let nodes = ports.iter().map(name).chain(["core".to_owned()]);
        let inside = LinksInside::new(nodes.collect(), links.collect())
            .expect("the links of a checked plan are valid");
        let node = |port: &u32| Some((PortId(*port), inside.node(&name(port))?));
        let nodes = ports.iter().filter_map(node).collect();
        let calendar = Calendar::new(inside, CalendarConfig::default())
            .expect("the default settings are valid");
        CalendarResources::new(calendar, nodes, Owner(0), 1)
    }
}

/// Returns the port of the users of a domain.
pub fn access(domain: DomainId) -> PortId {
    PortId(1000 + domain.0)
}
