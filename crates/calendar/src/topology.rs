//! Which links there are, and between what.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::trc::{RATE_MAX, RATE_MIN};

/// What links join: a switch, a host, or a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// A link of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub(crate) u32);

/// One direction between two nodes. A host's network card and its disk are links too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What people call it.
    pub name: String,
    /// The name of the node that it comes from.
    pub from: String,
    /// The name of the node that it leads to.
    pub to: String,
    /// Bits a second in all.
    pub capacity: Rate,
    /// What it is given away in multiples of.
    pub channel: Rate,
    /// How long what is newly given carries nothing, since a switch turns.
    pub guard: Duration,
    /// What a path over it costs; the cheapest paths are tried.
    pub cost: u32,
}

/// Nodes and the links between them, in which a path may be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<String>,
    links: Vec<Link>,
    ends: Vec<(NodeId, NodeId)>,
    names: BTreeMap<String, NodeId>,
    /// The links that leave each node.
    out: Vec<Vec<LinkId>>,
    /// Interfaces, whose numbers follow those of the links.
    interfaces: Vec<Interface>,
}

/// An interface or a switch port that makes circuits, and the links that begin or end there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, as devices and bookings have it.
    pub name: String,
    /// Links of which it is an end.
    pub links: BTreeSet<LinkId>,
    /// Limits of all its circuits; none are made there while nothing is known of the device.
    pub limits: Option<Limits>,
}

/// What a device keeps at one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rate of all circuits together.
    pub capacity: Rate,
    /// Granularity: every rate is a multiple of it.
    pub channel: Rate,
    /// Lowest rate of one circuit.
    pub least: Rate,
    /// Time in which a rate that was raised carries nothing.
    pub guard: Duration,
    /// Number of circuits at one time.
    pub circuits_max: usize,
}

impl Topology {
    /// These nodes and links.
    pub fn new(nodes: Vec<String>, links: Vec<Link>) -> Result<Self, Misuse> {
        if links.is_empty() {
            return Err(Misuse::Links(0));
        }
        let most = links.len().max(nodes.len());
        if most > LINKS_MAX {
            return Err(Misuse::Links(most));
        }
        let mut names = BTreeMap::new();
        for (nth, name) in (0..).zip(&nodes) {
            if names.insert(name.clone(), NodeId(nth)).is_some() {
                return Err(Misuse::Twice(name.clone()));
            }
        }
        let mut topology = Self {
            out: vec![Vec::new(); nodes.len()],
            nodes,
            links: Vec::new(),
            ends: Vec::new(),
            names,
            interfaces: Vec::new(),
        };
        let mut seen = BTreeSet::new();
        for link in links {
            if !seen.insert(link.name.clone()) {
                return Err(Misuse::Twice(link.name));
            }
            topology.add(link)?;
        }
        topology.check_islands()?;
        Ok(topology)
    }

    /// Says that these links begin or end at an interface; more links are added to those it has.
    pub fn attach(&mut self, interface: &str, links: &[LinkId]) -> Result<(), Misuse> {
        let known = links.iter().all(|link| self.about(*link).is_some());
        let nth = self.interfaces.iter().position(|one| one.name == interface);
        if interface.is_empty() || !known || self.interfaces.len() >= LINKS_MAX {
            return Err(Misuse::Interface(interface.into()));
        }
        let nth = nth.unwrap_or_else(|| {
            self.interfaces.push(Interface {
                name: interface.into(),
                links: BTreeSet::new(),
                limits: None,
            });
            self.interfaces.len() - 1
        });
        self.interfaces[nth].links.extend(links);
        Ok(())
    }

    /// Says what the device at an interface keeps; refuses an interface at which no link begins or ends.
    pub fn equip(&mut self, interface: &str, limits: Limits) -> Result<(), Misuse> {
        let mut found = self.interfaces.iter_mut();
        let found = found.find(|one| one.name == interface);
        let found = found.ok_or_else(|| Misuse::Interface(interface.into()))?;
        if limits.channel > limits.capacity {
            return Err(Misuse::Channel(interface.into(), limits.channel));
        }
        found.limits = Some(limits);
        Ok(())
    }

    /// The interface of a name; its number is one that no link has.
    pub fn interface(&self, name: &str) -> Option<(LinkId, &Interface)> {
        let nth = self.interfaces.iter().position(|one| one.name == name)?;
        Some((
            LinkId((self.links.len() + nth) as u32),
            &self.interfaces[nth],
        ))
    }

    /// All interfaces.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The interface of a number.
    pub(crate) fn port(&self, id: LinkId) -> Option<&Interface> {
        let nth = (id.0 as usize).checked_sub(self.links.len())?;
        self.interfaces.get(nth)
    }

    /// A single link from `a` to `b`.
    pub fn of_one(capacity: Rate, channel: Rate) -> Result<Self, Misuse> {
        let link = Link {
            name: "link".into(),
            from: "a".into(),
            to: "b".into(),
            capacity,
            channel,
            guard: Duration::ZERO,
            cost: 1,
        };
        Self::new(vec!["a".into(), "b".into()], vec![link])
    }

    /// The node of a name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// The link of a name.
    pub fn link(&self, name: &str) -> Option<LinkId> {
        let nth = self.links.iter().position(|link| link.name == name)?;
        Some(LinkId(nth as u32))
    }

    /// What there is to know of a link.
    pub fn about(&self, link: LinkId) -> Option<&Link> {
        self.links.get(link.0 as usize)
    }

    /// What people call a node.
    pub fn name(&self, node: NodeId) -> Option<&str> {
        self.nodes.get(node.0 as usize).map(String::as_str)
    }

    /// All links, in the order in which they were given.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        (0..).map(LinkId).zip(&self.links)
    }

    /// All nodes and what people call them, in the order in which they were given.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        (0..).map(NodeId).zip(self.nodes.iter().map(String::as_str))
    }

    /// Where a link comes from and leads to.
    pub(crate) fn ends(&self, link: LinkId) -> (NodeId, NodeId) {
        self.ends[link.0 as usize]
    }

    /// The links that leave a node; none if there is no such node.
    pub(crate) fn out(&self, node: NodeId) -> &[LinkId] {
        self.out.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, link: Link) -> Result<(), Misuse> {
        let id = LinkId(self.links.len() as u32);
        let end = |name: &String| {
            let node = self.names.get(name).copied();
            node.ok_or_else(|| Misuse::Nowhere(link.name.clone(), name.clone()))
        };
        let (from, to) = (end(&link.from)?, end(&link.to)?);
        if from == to {
            return Err(Misuse::Loop(link.name));
        }
        if !(RATE_MIN..=RATE_MAX).contains(&link.capacity) {
            return Err(Misuse::Capacity(link.name, link.capacity));
        }
        if !(RATE_MIN..=link.capacity).contains(&link.channel) {
            return Err(Misuse::Channel(link.name, link.channel));
        }
        if link.guard > GUARD_MAX {
            return Err(Misuse::Guard(link.name));
        }
        self.out[from.0 as usize].push(id);
        self.ends.push((from, to));
        self.links.push(link);
        Ok(())
    }

    /// Every node can be reached from the first one, be it against the links.
    fn check_islands(&self) -> Result<(), Misuse> {
        let mut beside = vec![Vec::new(); self.nodes.len()];
        for (from, to) in &self.ends {
            beside[from.0 as usize].push(to.0 as usize);
            beside[to.0 as usize].push(from.0 as usize);
        }
        let mut seen = vec![false; self.nodes.len()];
        let mut next = vec![0];
        while let Some(node) = next.pop() {
            if !core::mem::replace(&mut seen[node], true) {
                next.extend(&beside[node]);
            }
        }
        match seen.iter().position(|seen| !seen) {
            Some(node) => {
                let (name, first) = (self.nodes[node].clone(), self.nodes[0].clone());
                Err(Misuse::Island(name, first))
            }
            None => Ok(()),
        }
    }
}

/// Why something is no topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// No link, or so many nodes or links.
    Links(usize),
    /// Two nodes or two links of one name.
    Twice(String),
    /// A link with an end at a node that there is not.
    Nowhere(String, String),
    /// A link from a node to itself.
    Loop(String),
    /// A node that no link joins to the other.
    Island(String, String),
    /// A link with a capacity that no circuit has.
    Capacity(String, Rate),
    /// A link with a channel that is too small, or larger than the link.
    Channel(String, Rate),
    /// A link with a guard time of more than an hour.
    Guard(String),
    /// An interface without a name, or one at which no link ends.
    Interface(String),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Links(0) => write!(f, "a topology has at least one link"),
            Self::Links(len) => write!(
                f,
                "{len} nodes or links are more than {LINKS_MAX}: divide the topology into domains"
            ),
            Self::Twice(name) => write!(
                f,
                "there are two of the name {name}: give each node and each link a name of its own"
            ),
            Self::Nowhere(link, node) => write!(
                f,
                "link {link} has an end at {node}, which is no node: name it among the nodes"
            ),
            Self::Loop(link) => write!(
                f,
                "link {link} leads to where it comes from: give it two different ends"
            ),
            Self::Island(node, other) => write!(
                f,
                "no link joins {node} to {other}: add one, or make it a topology of its own"
            ),
            Self::Capacity(link, rate) => write!(
                f,
                "link {link} has a capacity of {rate}, not one between {RATE_MIN} and {RATE_MAX}: check its unit"
            ),
            Self::Channel(link, rate) => write!(
                f,
                "link {link} has channels of {rate}: they have at least {RATE_MIN} and at most the link's capacity"
            ),
            Self::Guard(link) => write!(
                f,
                "link {link} has a guard time of more than an hour: check its unit"
            ),
            Self::Interface(name) => write!(
                f,
                "no link begins or ends at interface \"{name}\": add interfaces = [\"{name}\"] to its link in the topology"
            ),
        }
    }
}

impl core::error::Error for Misuse {}

/// The most nodes, and the most links.
pub const LINKS_MAX: usize = 1 << 16;
const GUARD_MAX: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn link(name: &str, from: &str, to: &str) -> Link {
        Link {
            name: name.into(),
            from: from.into(),
            to: to.into(),
            capacity: Rate::from_mbps(1000),
            channel: Rate::from_mbps(1),
            guard: Duration::ZERO,
            cost: 1,
        }
    }

    fn refused(nodes: &[&str], links: Vec<Link>) -> Misuse {
        let nodes = nodes.iter().map(ToString::to_string).collect();
        Topology::new(nodes, links).unwrap_err()
    }

    #[test]
    fn what_is_no_topology_is_refused_by_the_name_that_is_wrong() {
        let ab = || link("ab", "a", "b");
        let with = |change: fn(&mut Link)| {
            let mut link = ab();
            change(&mut link);
            refused(&["a", "b"], vec![link])
        };
        let mbps = Rate::from_mbps;
        for (misuse, expected, says) in [
            (refused(&["a"], vec![]), Misuse::Links(0), "at least one"),
            (
                refused(&["a", "b", "a"], vec![ab()]),
                Misuse::Twice("a".into()),
                "two of the name a",
            ),
            (
                refused(&["a", "b"], vec![ab(), ab()]),
                Misuse::Twice("ab".into()),
                "two of the name ab",
            ),
            (
                refused(&["a"], vec![ab()]),
                Misuse::Nowhere("ab".into(), "b".into()),
                "no node",
            ),
            (
                with(|link| link.to = "a".into()),
                Misuse::Loop("ab".into()),
                "two different ends",
            ),
            (
                refused(&["a", "b", "c"], vec![ab()]),
                Misuse::Island("c".into(), "a".into()),
                "joins c to a",
            ),
            (
                with(|link| link.capacity = Rate::UNLIMITED),
                Misuse::Capacity("ab".into(), Rate::UNLIMITED),
                "unit",
            ),
            (
                with(|link| link.channel = Rate::from_mbps(1001)),
                Misuse::Channel("ab".into(), mbps(1001)),
                "at most",
            ),
            (
                with(|link| link.guard = Duration::from_secs(3601)),
                Misuse::Guard("ab".into()),
                "hour",
            ),
        ] {
            assert_eq!(misuse, expected);
            assert!(misuse.to_string().contains(says), "{misuse}");
        }
    }

    #[test]
    fn nodes_and_links_are_found_by_their_names() {
        let nodes = vec!["a".to_string(), "b".to_string()];
        let topology =
            Topology::new(nodes, vec![link("ab", "a", "b"), link("ba", "b", "a")]).unwrap();
        let back = topology.link("ba").unwrap();
        assert_eq!(topology.about(back).unwrap().from, "b");
        assert_eq!(topology.ends(back), (NodeId(1), NodeId(0)));
        assert_eq!(topology.name(topology.node("b").unwrap()), Some("b"));
        assert_eq!((topology.node("c"), topology.link("c")), (None, None));
        assert_eq!(topology.links().count(), 2);
        assert_eq!(topology.nodes().last(), Some((NodeId(1), "b")));
    }
}
