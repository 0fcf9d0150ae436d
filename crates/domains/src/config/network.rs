//! Ports and links of a domain as a topology of its calendar.
//!
//! Each port is a node of its own, with a link of its capacity in each direction. So two ports at one node share
//! nothing but what the links between nodes share.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_calendar::{Link, LinkId, NodeId, Topology, path};
use lighthaul_stargate::calendar_resources::ROUTES_MAX;
use lighthaul_stargate::{PortId, Segment};

use super::fault::ConfigFault;
use super::tables::{LinkTable, PortTable};

/// Network inside a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Nodes and links.
    pub topology: Topology,
    /// Node of each port.
    pub ports: BTreeMap<PortId, NodeId>,
}

impl Network {
    pub(super) fn new(ports: &[PortTable], links: &[LinkTable]) -> Result<Self, ConfigFault> {
        let mut nodes = BTreeSet::new();
        let mut all = Vec::new();
        for port in ports {
            let name = node_of(port.number);
            if !nodes.insert(name.clone()) {
                let (table, number) = ("port", port.number);
                return Err(ConfigFault::Duplicate { table, number });
            }
            nodes.insert(port.node.clone());
            let limits = (port.capacity, port.channel, 1);
            let there = link(&format!("{name} in"), (&name, &port.node), limits);
            let back = link(&format!("{name} out"), (&port.node, &name), limits);
            all.extend([there, back]);
        }
        for written in links {
            let (from, to) = (&written.from, &written.to);
            nodes.extend([from.clone(), to.clone()]);
            let limits = (written.capacity, written.channel, written.cost);
            let name = written.name.clone();
            let name = name.unwrap_or_else(|| format!("{from}-{to}"));
            all.push(link(&name, (from, to), limits));
            if written.both {
                let back = written
                    .name
                    .as_ref()
                    .map_or_else(|| format!("{to}-{from}"), |name| format!("{name} back"));
                all.push(link(&back, (to, from), limits));
            }
        }
        let topology = Topology::new(nodes.into_iter().collect(), all)?;
        let numbers = ports.iter().filter_map(|port| {
            let node = topology.node(&node_of(port.number))?;
            Some((PortId(port.number), node))
        });
        let ports = numbers.collect();
        Ok(Self { topology, ports })
    }

    /// Returns the links of each route between two ports.
    pub(super) fn routes_of(&self, segment: Segment) -> Vec<Vec<LinkId>> {
        let node = |port| self.ports.get(&port).copied();
        let (Some(from), Some(to)) = (node(segment.ingress), node(segment.egress)) else {
            return Vec::new();
        };
        let routes = path::shortest(&self.topology, from, to, ROUTES_MAX);
        routes.iter().map(|path| path.links().to_vec()).collect()
    }

    /// Returns the link of a port in a direction: `in` or `out`.
    pub(super) fn port_link(&self, port: PortId, direction: &str) -> Option<LinkId> {
        let name = format!("{} {direction}", node_of(port.0));
        let mut links = self.topology.links();
        links.find_map(|(id, link)| (link.name == name).then_some(id))
    }
}

fn node_of(port: u32) -> String {
    format!("port {port}")
}

fn link(
    name: &str,
    (from, to): (&str, &str),
    (capacity, channel, cost): (Rate, Option<Rate>, u32),
) -> Link {
    Link {
        name: name.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        capacity,
        channel: channel.unwrap_or_else(|| CHANNEL.min(capacity)),
        guard: Duration::ZERO,
        cost,
    }
}

/// Default unit of rates.
const CHANNEL: Rate = Rate::from_mbps(1);
