//! Random topologies and requests.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_calendar::{Calendar, Config as CalendarConfig, Link, Owner, Topology as Inside};
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::request::Excludes;
use lighthaul_stargate::{
    CalendarResources, Config, CorrelationId, DomainId, DomainLink, Policy, PortId, Protection,
    Request, Signaling, Timing, Topology,
};

/// One channel.
pub(crate) const CHANNEL: Rate = Rate::from_mbps(100);

/// Domains, their ports, and the links between them.
pub(crate) struct Plan {
    pub(crate) links: Vec<DomainLink>,
    /// For each domain: capacity of each port, in channels.
    pub(crate) ports: BTreeMap<DomainId, BTreeMap<PortId, u64>>,
    pub(crate) is_tree: bool,
    /// Policies that differ from the default.
    pub(crate) policies: BTreeMap<(DomainId, DomainId), Policy>,
}

pub(crate) const fn access(domain: DomainId) -> PortId {
    PortId(100_000 + domain.0)
}

pub(crate) fn timing() -> Timing {
    Timing {
        query: Duration::from_secs(2),
        hold: Duration::from_secs(4),
        decide: Duration::from_secs(4),
        hold_max: Duration::from_secs(30),
        retry: Duration::from_millis(700),
        retry_max: Duration::from_secs(6),
        refresh: Duration::from_secs(10),
        linger: Duration::from_secs(8),
        clock_tolerance: Duration::from_secs(2),
    }
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let count = 2 + rng.below(1 + rng.clone().below(29)) as u32;
        let mut plan = Self {
            links: Vec::new(),
            ports: BTreeMap::new(),
            is_tree: rng.below(4) == 0,
            policies: BTreeMap::new(),
        };
        for nth in 0..count {
            plan.add_port(DomainId(nth), access(DomainId(nth)), 1 + rng.below(5));
            if nth > 0 {
                let other = rng.below(u64::from(nth)) as u32;
                plan.join(DomainId(nth), DomainId(other), rng);
            }
        }
        for _ in 0..rng.below(u64::from(count) + 1) {
            let (one, two) = (rng.below(u64::from(count)), rng.below(u64::from(count)));
            if one != two {
                plan.join(DomainId(one as u32), DomainId(two as u32), rng);
            }
        }
        plan.limit(rng);
        plan
    }

    /// Limits some neighbors.
    fn limit(&mut self, rng: &mut Rng) {
        let count = self.ports.len() as u64;
        for _ in 0..rng.below(count) {
            let pair = [rng.below(count), rng.below(count)].map(|one| DomainId(one as u32));
            let policy = Policy {
                rate_total_max: CHANNEL.scaled(1 + rng.below(4) as u32, 1),
                ..Policy::default()
            };
            self.policies.insert(pair.into(), policy);
        }
    }

    fn add_port(&mut self, domain: DomainId, port: PortId, channels: u64) {
        let ports = self.ports.entry(domain).or_default();
        ports.insert(port, channels);
    }

    pub(crate) fn join(&mut self, one: DomainId, two: DomainId, rng: &mut Rng) {
        for (from, to) in [(one, two), (two, one)] {
            let port = PortId(self.links.len() as u32 + 1);
            let cost = 1 + rng.below(3) as u32;
            self.links.push(DomainLink {
                port,
                from,
                to,
                cost,
            });
            let channels = 1 + rng.below(4);
            self.add_port(from, port, channels);
            self.add_port(to, port, channels);
        }
    }

    pub(crate) fn domains(&self) -> impl Iterator<Item = DomainId> + '_ {
        self.ports.keys().copied()
    }

    pub(crate) fn topology(&self) -> Topology {
        Topology::new(&self.links)
    }

    pub(crate) fn config(&self, me: DomainId) -> Config {
        let joined = |other: DomainId| {
            let mut links = self.links.iter();
            links.any(|link| link.from == me && link.to == other)
        };
        let others = self.domains().filter(|other| *other != me);
        let neighbors = others.filter(|other| self.is_tree || joined(*other));
        Config {
            me,
            neighbors: neighbors
                .map(|other| (other, self.policy(me, other)))
                .collect(),
            timing: timing(),
            paths_max: 3,
            rounds_max: 2,
        }
    }

    /// Returns the policy of a domain for a neighbor.
    pub(crate) fn policy(&self, me: DomainId, other: DomainId) -> Policy {
        let policy = self.policies.get(&(me, other));
        policy.copied().unwrap_or_default()
    }

    /// Returns an empty calendar of a domain: a star whose center is joined to each port in both directions.
    pub(crate) fn resources(&self, domain: DomainId) -> CalendarResources {
        let ports = &self.ports[&domain];
        let mut nodes = vec!["core".to_owned()];
        let mut links = Vec::new();
        for (port, channels) in ports {
            let node = format!("p{}", port.0);
            for (name, from, to) in [
                (format!("in{}", port.0), node.clone(), "core".to_owned()),
                (format!("out{}", port.0), "core".to_owned(), node.clone()),
            ] {
                links.push(Link {
                    name,
                    from,
                    to,
                    capacity: CHANNEL.scaled(*channels as u32, 1),
                    channel: CHANNEL,
                    guard: Duration::ZERO,
                    cost: 1,
                });
            }
            nodes.push(node);
        }
        let inside = Inside::new(nodes, links).unwrap();
        let node = |port: &PortId| (*port, inside.node(&format!("p{}", port.0)).unwrap());
        let nodes = ports.keys().map(node).collect();
        let calendar = Calendar::new(inside, CalendarConfig::default()).unwrap();
        CalendarResources::new(calendar, nodes, Owner(0), 1)
    }

    pub(crate) fn request(&self, rng: &mut Rng, from: DomainId, now: Instant) -> Request {
        let count = self.ports.len() as u64;
        let to = DomainId(rng.below(count) as u32);
        let rate_max = CHANNEL.scaled(1 + rng.below(2) as u32, 1);
        let secs = 40 + rng.below(120);
        let mut excludes = Excludes::default();
        if rng.below(5) == 0 {
            let other = DomainId(rng.below(count) as u32);
            if other != from && other != to {
                excludes.domains.insert(other);
            }
        }
        Request {
            id: CorrelationId(u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())),
            ingress: access(from),
            to,
            egress: access(to),
            demand: Demand {
                bytes: rate_max.bytes_in(Duration::from_secs(secs)),
                rate_max,
                rate_min: CHANNEL,
            },
            from: now,
            till: now + Duration::from_secs(500),
            excludes,
            protection: if rng.below(6) == 0 {
                Protection::Disjoint
            } else {
                Protection::None
            },
            signaling: if self.is_tree && rng.below(4) > 0 {
                Signaling::Tree
            } else {
                Signaling::Chain
            },
        }
    }
}
