//! Nodes, links and interfaces of a network.
//!
//! A [`Topology`] is checked when it is made and then has no unknown node, disconnected part or
//! rate out of range. A link is one direction; a cable is two links. An interface limits the
//! circuits that start or end there, and makes none while the limits of its device are unknown.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::trc::{RATE_MAX, RATE_MIN};

/// Number of a node: a switch, a host, or a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// Number of a link or an interface of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub(crate) u32);

/// One direction between two nodes. Network cards and disks of a host are also links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Unique name.
    pub name: String,
    /// Name of the source node.
    pub from: String,
    /// Name of the target node.
    pub to: String,
    /// Total capacity.
    pub capacity: Rate,
    /// Unit of allocation: each rate is a multiple of it.
    pub channel: Rate,
    /// Guard time: an increased rate carries nothing while a switch changes its state.
    pub guard: Duration,
    /// Cost for path selection; the cheapest paths are tried.
    pub cost: u32,
}

/// Nodes and the links between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<String>,
    links: Vec<Link>,
    ends: Vec<(NodeId, NodeId)>,
    names: BTreeMap<String, NodeId>,
    /// Links that leave each node.
    out: Vec<Vec<LinkId>>,
    /// Interfaces. Their numbers follow those of the links.
    interfaces: Vec<Interface>,
}

/// An interface or switch port that makes circuits, and the links that start or end there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, as used by devices and bookings.
    pub name: String,
    /// Links that start or end at the interface.
    pub links: BTreeSet<LinkId>,
    /// Limits of the device at the interface. No circuits are made there while the limits are unknown.
    pub limits: Option<Limits>,
}

/// Limits of a device at one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Total rate of all circuits.
    pub capacity: Rate,
    /// Unit of rates: each rate is a multiple of it.
    pub channel: Rate,
    /// Lowest rate of one circuit.
    pub least: Rate,
    /// Time in which an increased rate carries nothing.
    pub guard: Duration,
    /// Bytes that the device counts for each packet in addition to the packet of IP.
    pub packet_bytes: u16,
    /// Maximum number of circuits at one time.
    pub circuits_max: usize,
}

impl Topology {
    /// Returns a topology of the given nodes and links.
    pub fn new(nodes: Vec<String>, links: Vec<Link>) -> Result<Self, TopologyError> {
        if links.is_empty() {
            return Err(TopologyError::Links(0));
        }
        let most = links.len().max(nodes.len());
        if most > LINKS_MAX {
            return Err(TopologyError::Links(most));
        }
        let mut names = BTreeMap::new();
        for (nth, name) in (0..).zip(&nodes) {
            if names.insert(name.clone(), NodeId(nth)).is_some() {
                return Err(TopologyError::DuplicateName(name.clone()));
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
                return Err(TopologyError::DuplicateName(link.name));
            }
            topology.add(link)?;
        }
        topology.check_connected()?;
        Ok(topology)
    }

    /// Adds links to an interface, which is created if it does not exist.
    pub fn attach(&mut self, interface: &str, links: &[LinkId]) -> Result<(), TopologyError> {
        let known = links.iter().all(|link| self.about(*link).is_some());
        let nth = self.interfaces.iter().position(|one| one.name == interface);
        if interface.is_empty() || !known || self.interfaces.len() >= LINKS_MAX {
            return Err(TopologyError::Interface(interface.into()));
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

    /// Sets the limits of the device at an interface. Fails for an interface without links.
    pub fn set_limits(&mut self, interface: &str, limits: Limits) -> Result<(), TopologyError> {
        let mut found = self.interfaces.iter_mut();
        let found = found.find(|one| one.name == interface);
        let found = found.ok_or_else(|| TopologyError::Interface(interface.into()))?;
        if limits.channel > limits.capacity {
            return Err(TopologyError::Channel(interface.into(), limits.channel));
        }
        found.limits = Some(limits);
        Ok(())
    }

    /// Returns the interface with this name. Its number differs from those of all links.
    pub fn interface(&self, name: &str) -> Option<(LinkId, &Interface)> {
        let nth = self.interfaces.iter().position(|one| one.name == name)?;
        Some((
            LinkId((self.links.len() + nth) as u32),
            &self.interfaces[nth],
        ))
    }

    /// Returns all interfaces.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Returns the limits of interface `id`, if its device is known.
    pub(crate) fn limits(&self, id: LinkId) -> Option<Limits> {
        self.interface_by_id(id)?.limits
    }

    /// Returns the interface of a link, if it has only one and its device is known.
    pub(crate) fn only_interface(&self, link: LinkId) -> Option<LinkId> {
        let numbered = (self.links.len()..).zip(&self.interfaces);
        let mut of_link = numbered.filter(|(_, one)| one.links.contains(&link));
        let (nth, one) = of_link.next()?;
        let is_known = one.limits.is_some() && of_link.next().is_none();
        is_known.then_some(LinkId(nth as u32))
    }

    /// Returns the interface with this number.
    pub(crate) fn interface_by_id(&self, id: LinkId) -> Option<&Interface> {
        let nth = (id.0 as usize).checked_sub(self.links.len())?;
        self.interfaces.get(nth)
    }

    /// Returns a single link from `a` to `b`.
    pub fn single_link(capacity: Rate, channel: Rate) -> Result<Self, TopologyError> {
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

    /// Returns the node with this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// Returns the link with this name.
    pub fn link(&self, name: &str) -> Option<LinkId> {
        let nth = self.links.iter().position(|link| link.name == name)?;
        Some(LinkId(nth as u32))
    }

    /// Returns the attributes of a link.
    pub fn about(&self, link: LinkId) -> Option<&Link> {
        self.links.get(link.0 as usize)
    }

    /// Returns the name of a node.
    pub fn name(&self, node: NodeId) -> Option<&str> {
        self.nodes.get(node.0 as usize).map(String::as_str)
    }

    /// Returns all links in the order of definition.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        (0..).map(LinkId).zip(&self.links)
    }

    /// Returns all nodes and their names in the order of definition.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        (0..).map(NodeId).zip(self.nodes.iter().map(String::as_str))
    }

    /// Returns the source and the target node of a link.
    pub(crate) fn ends(&self, link: LinkId) -> (NodeId, NodeId) {
        self.ends[link.0 as usize]
    }

    /// Returns the links that leave a node; none if the node does not exist.
    pub(crate) fn out(&self, node: NodeId) -> &[LinkId] {
        self.out.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, link: Link) -> Result<(), TopologyError> {
        let id = LinkId(self.links.len() as u32);
        let end = |name: &String| {
            let node = self.names.get(name).copied();
            node.ok_or_else(|| TopologyError::UnknownNode(link.name.clone(), name.clone()))
        };
        let (from, to) = (end(&link.from)?, end(&link.to)?);
        if from == to {
            return Err(TopologyError::Loop(link.name));
        }
        if !(RATE_MIN..=RATE_MAX).contains(&link.capacity) {
            return Err(TopologyError::Capacity(link.name, link.capacity));
        }
        if !(RATE_MIN..=link.capacity).contains(&link.channel) {
            return Err(TopologyError::Channel(link.name, link.channel));
        }
        if link.guard > GUARD_MAX {
            return Err(TopologyError::Guard(link.name));
        }
        self.out[from.0 as usize].push(id);
        self.ends.push((from, to));
        self.links.push(link);
        Ok(())
    }

    /// Checks that all nodes are connected, ignoring link directions.
    fn check_connected(&self) -> Result<(), TopologyError> {
        let mut neighbors = vec![Vec::new(); self.nodes.len()];
        for (from, to) in &self.ends {
            neighbors[from.0 as usize].push(to.0 as usize);
            neighbors[to.0 as usize].push(from.0 as usize);
        }
        let mut seen = vec![false; self.nodes.len()];
        let mut next = vec![0];
        while let Some(node) = next.pop() {
            if !core::mem::replace(&mut seen[node], true) {
                next.extend(&neighbors[node]);
            }
        }
        match seen.iter().position(|seen| !seen) {
            Some(node) => {
                let (name, first) = (self.nodes[node].clone(), self.nodes[0].clone());
                Err(TopologyError::Disconnected(name, first))
            }
            None => Ok(()),
        }
    }
}

/// Fault in the definition of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// No links, or more nodes or links than [`LINKS_MAX`].
    Links(usize),
    /// Name of two nodes or two links.
    DuplicateName(String),
    /// Link, and the name of an end that is not a node.
    UnknownNode(String, String),
    /// Link from a node to itself.
    Loop(String),
    /// Two nodes that are not connected.
    Disconnected(String, String),
    /// Link with a capacity out of range.
    Capacity(String, Rate),
    /// Link whose channel is too small, or larger than its capacity.
    Channel(String, Rate),
    /// Link with a guard time of more than an hour.
    Guard(String),
    /// Interface without a name or without links.
    Interface(String),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Links(0) => write!(f, "the topology has no links: define at least one link"),
            Self::Links(len) => write!(
                f,
                "{len} nodes or links exceed the maximum of {LINKS_MAX}: divide the topology into domains"
            ),
            Self::DuplicateName(name) => write!(
                f,
                "name {name} is used twice: give each node and each link a unique name"
            ),
            Self::UnknownNode(link, node) => write!(
                f,
                "link {link} ends at {node}, which is not defined: add it to the nodes"
            ),
            Self::Loop(link) => write!(
                f,
                "link {link} starts and ends at the same node: give it two different ends"
            ),
            Self::Disconnected(node, other) => write!(
                f,
                "no links connect {node} with {other}: add one, or define a second topology"
            ),
            Self::Capacity(link, rate) => write!(
                f,
                "link {link} has a capacity of {rate}, outside {RATE_MIN} to {RATE_MAX}: check the unit"
            ),
            Self::Channel(link, rate) => write!(
                f,
                "link {link} has channels of {rate}: use {RATE_MIN} to the capacity of the link"
            ),
            Self::Guard(link) => write!(
                f,
                "link {link} has a guard time of more than an hour: check the unit"
            ),
            Self::Interface(name) => write!(
                f,
                "no link starts or ends at interface \"{name}\": add interfaces = [\"{name}\"] to its link in the topology"
            ),
        }
    }
}

impl core::error::Error for TopologyError {}

/// Maximum number of nodes, and of links.
pub const LINKS_MAX: usize = 1 << 16;
pub(crate) const GUARD_MAX: Duration = Duration::from_hours(1);

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

    fn refused(nodes: &[&str], links: Vec<Link>) -> TopologyError {
        let nodes = nodes.iter().map(ToString::to_string).collect();
        Topology::new(nodes, links).unwrap_err()
    }

    #[test]
    fn faulty_topology_is_refused_with_the_name_at_fault() {
        let ab = || link("ab", "a", "b");
        let with = |change: fn(&mut Link)| {
            let mut link = ab();
            change(&mut link);
            refused(&["a", "b"], vec![link])
        };
        let mbps = Rate::from_mbps;
        for (misuse, expected, says) in [
            (
                refused(&["a"], vec![]),
                TopologyError::Links(0),
                "at least one link",
            ),
            (
                refused(&["a", "b", "a"], vec![ab()]),
                TopologyError::DuplicateName("a".into()),
                "name a is used twice",
            ),
            (
                refused(&["a", "b"], vec![ab(), ab()]),
                TopologyError::DuplicateName("ab".into()),
                "name ab is used twice",
            ),
            (
                refused(&["a"], vec![ab()]),
                TopologyError::UnknownNode("ab".into(), "b".into()),
                "ends at b, which is not defined",
            ),
            (
                with(|link| link.to = "a".into()),
                TopologyError::Loop("ab".into()),
                "two different ends",
            ),
            (
                refused(&["a", "b", "c"], vec![ab()]),
                TopologyError::Disconnected("c".into(), "a".into()),
                "connect c with a",
            ),
            (
                with(|link| link.capacity = Rate::UNLIMITED),
                TopologyError::Capacity("ab".into(), Rate::UNLIMITED),
                "unit",
            ),
            (
                with(|link| link.channel = Rate::from_mbps(1001)),
                TopologyError::Channel("ab".into(), mbps(1001)),
                "to the capacity",
            ),
            (
                with(|link| link.guard = Duration::from_secs(3601)),
                TopologyError::Guard("ab".into()),
                "hour",
            ),
        ] {
            assert_eq!(misuse, expected);
            assert!(misuse.to_string().contains(says), "{misuse}");
        }
    }

    #[test]
    fn nodes_and_links_are_found_by_name() {
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

    fn both_ways() -> Topology {
        let links = vec![link("ab", "a", "b"), link("ba", "b", "a")];
        Topology::new(vec!["a".into(), "b".into()], links).unwrap()
    }

    fn limits(mbps: u64) -> Limits {
        Limits {
            capacity: Rate::from_mbps(10),
            channel: Rate::from_mbps(mbps),
            least: Rate::from_mbps(1),
            guard: Duration::ZERO,
            packet_bytes: 0,
            circuits_max: 1,
        }
    }

    #[test]
    fn link_may_have_a_guard_time_of_an_hour() {
        let slow = Link {
            guard: Duration::from_hours(1),
            ..link("ab", "a", "b")
        };
        let nodes = vec!["a".to_string(), "b".to_string()];
        assert!(Topology::new(nodes, vec![slow]).is_ok());
    }

    #[test]
    fn interfaces_are_numbered_after_links_and_know_their_links() {
        let mut topology = both_ways();
        topology.attach("eth0", &[LinkId(0)]).unwrap();
        topology.attach("eth1", &[]).unwrap();
        topology.attach("eth0", &[LinkId(1)]).unwrap();
        let (first, eth0) = topology.interface("eth0").unwrap();
        assert_eq!(first, LinkId(2));
        assert!(eth0.links.iter().eq(&[LinkId(0), LinkId(1)]));
        let (second, eth1) = topology.interface("eth1").unwrap();
        assert_eq!((second, eth1.links.len()), (LinkId(3), 0));
        assert_eq!(topology.interface("eth2"), None);
        let names = topology.interfaces().iter().map(|one| one.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["eth0", "eth1"]);
        let numbered = [1, 2, 3, 4].map(|nth| {
            let interface = topology.interface_by_id(LinkId(nth));
            interface.map(|one| one.name.as_str())
        });
        assert_eq!(numbered, [None, Some("eth0"), Some("eth1"), None]);
        for (name, link) in [("", 0), ("eth2", 2)] {
            let refused = topology.attach(name, &[LinkId(link)]);
            assert_eq!(refused, Err(TopologyError::Interface(name.into())));
        }
        assert_eq!(topology.interfaces().len(), 2);
    }

    #[test]
    fn limits_of_a_device_belong_to_its_interface() {
        let mut topology = both_ways();
        topology.attach("eth0", &[LinkId(0)]).unwrap();
        topology.attach("eth1", &[LinkId(1)]).unwrap();
        for (name, channel, expected) in [
            ("eth1", 10, Ok(())),
            (
                "eth0",
                11,
                Err(TopologyError::Channel("eth0".into(), Rate::from_mbps(11))),
            ),
            ("eth2", 1, Err(TopologyError::Interface("eth2".into()))),
        ] {
            assert_eq!(topology.set_limits(name, limits(channel)), expected);
        }
        let known = [1, 2, 3, 4].map(|nth| topology.limits(LinkId(nth)));
        assert_eq!(known, [None, None, Some(limits(10)), None]);
    }

    #[test]
    fn single_known_interface_carries_all_link_packets() {
        let mut topology = both_ways();
        topology.attach("eth0", &[LinkId(0)]).unwrap();
        topology.attach("eth1", &[LinkId(1)]).unwrap();
        topology.set_limits("eth1", limits(1)).unwrap();
        let only = |topology: &Topology| [0, 1].map(|nth| topology.only_interface(LinkId(nth)));
        assert_eq!(only(&topology), [None, Some(LinkId(3))]);
        topology.set_limits("eth0", limits(1)).unwrap();
        assert_eq!(only(&topology), [Some(LinkId(2)), Some(LinkId(3))]);
        topology.attach("eth0", &[LinkId(1)]).unwrap();
        assert_eq!(only(&topology), [Some(LinkId(2)), None]);
    }

    #[test]
    fn nodes_have_their_outgoing_links() {
        let topology = both_ways();
        let out = [0, 1, 2].map(|nth| topology.out(NodeId(nth)).to_vec());
        assert_eq!(out, [vec![LinkId(0)], vec![LinkId(1)], vec![]]);
        let links = topology.links().map(|(id, link)| (id, link.name.as_str()));
        assert!(links.eq([(LinkId(0), "ab"), (LinkId(1), "ba")]));
        let single = Topology::single_link(Rate::from_mbps(9), Rate::from_mbps(3)).unwrap();
        let only = single.about(single.link("link").unwrap()).unwrap();
        assert_eq!(
            (only.capacity, only.channel),
            (Rate::from_mbps(9), Rate::from_mbps(3))
        );
    }
}
