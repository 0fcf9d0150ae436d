//! Limits of devices in the calendar of a domain.
//!
//! A device limits what passes its interface. The calendar knows the ports of the circuits there, and not the interface
//! itself. So the interface stands for links of ports that no other device serves:
//!
//! ```text
//! eth1: 12 -> 100, 13 -> 100, and no other circuit leaves by port 100: eth1 limits what leaves by port 100
//! ```

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_calendar::LinkId;
use lighthaul_circuit::driver::Capabilities;
use lighthaul_stargate::{PortId, Segment};

use super::fault::ConfigFault;
use super::network::Network;
use crate::devices::SegmentCircuit;

/// Circuits of a configuration, by their pairs of ports.
type Circuits = BTreeMap<Segment, SegmentCircuit>;

/// Port of a circuit, and the direction of its link there.
type End = (fn(&Segment) -> PortId, &'static str);

/// Adds the limits of devices to the network, by their interfaces. Fails if a device cannot keep the circuits of its
/// interface apart from those of others, or has too few circuits.
pub(super) fn add(
    network: &mut Network,
    circuits: &Circuits,
    capabilities: &BTreeMap<String, Capabilities>,
) -> Result<(), ConfigFault> {
    for (interface, can) in capabilities {
        let here = circuits.values().filter(|one| one.interface == *interface);
        let count = here.count();
        if count == 0 {
            continue;
        }
        if count > can.entries_max {
            return Err(ConfigFault::Circuits {
                interface: interface.clone(),
                count,
                max: can.entries_max,
            });
        }
        let links = links(network, circuits, interface);
        let links = links.ok_or_else(|| ConfigFault::MixedPorts(interface.clone()))?;
        network.topology.attach(interface, &links)?;
        network.topology.set_limits(interface, can.limits())?;
    }
    Ok(())
}

/// Returns the links that only circuits of one interface use: links out of its ports, or links into them.
fn links(network: &Network, circuits: &Circuits, interface: &str) -> Option<Vec<LinkId>> {
    let ends: [End; 2] = [(|one| one.egress, "out"), (|one| one.ingress, "in")];
    ends.into_iter().find_map(|(end, direction)| {
        let ports = |is_here: bool| -> BTreeSet<PortId> {
            let found = circuits
                .iter()
                .filter(|(_, one)| (one.interface == interface) == is_here);
            found.map(|(segment, _)| end(segment)).collect()
        };
        let here = ports(true);
        here.is_disjoint(&ports(false)).then(|| {
            let links = here.iter();
            links
                .filter_map(|port| network.port_link(*port, direction))
                .collect()
        })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use lighthaul_base::{Instant, Rate};
    use lighthaul_circuit::driver::{CountedBytes, Layer};
    use lighthaul_stargate::Resources;
    use lighthaul_stargate::offer::{Demand, Losses};

    use super::*;
    use crate::config::DomainConfig;
    use crate::devices::tests::example;

    /// Domain with four ports at one node, and circuits at two interfaces.
    fn config(circuits: &[(u32, u32, &str)]) -> DomainConfig {
        let mut text = String::from(
            "domain = 1\nname = \"one\"\nlisten = \"127.0.0.1:0\"\nkey = \"key\"\nstore = \"store\"\n",
        );
        let ports = (1..=4).map(|number| {
            format!("[[port]]\nnumber = {number}\nnode = \"switch\"\ncapacity = \"1Gb/s\"\n")
        });
        let devices = ["eth1", "eth2"].map(|interface| {
            format!("[[device]]\ninterface = \"{interface}\"\ncapacity = \"1Gb/s\"\n")
        });
        let circuits = circuits.iter().enumerate();
        let circuits = circuits.map(|(nth, (ingress, egress, interface))| {
            format!(
                "[[circuit]]\ningress = {ingress}\negress = {egress}\ninterface = \"{interface}\"\n\
                 flow = \"10.0.0.{nth}/32\"\n"
            )
        });
        text.extend(ports.chain(devices).chain(circuits));
        DomainConfig::parse(&text, Path::new("/")).unwrap()
    }

    fn able(mbps: u64, entries_max: usize) -> Capabilities {
        Capabilities {
            rate_min: Rate::from_mbps(20),
            rate_max: Rate::from_mbps(mbps),
            granularity: Rate::from_mbps(10),
            reconfiguration: Duration::from_millis(3),
            settling: Duration::from_millis(4),
            entries_max,
            counted: CountedBytes::IP,
            timer_max: None,
        }
    }

    fn add_to(
        circuits: &[(u32, u32, &str)],
        capabilities: &[(&str, Capabilities)],
    ) -> Result<DomainConfig, ConfigFault> {
        let mut config = config(circuits);
        let known = capabilities
            .iter()
            .map(|(name, can)| ((*name).to_owned(), *can));
        config.add_limits(&known.collect())?;
        Ok(config)
    }

    /// Returns the names of the links of an interface.
    fn links_of(config: &DomainConfig, interface: &str) -> Vec<String> {
        let topology = &config.network.topology;
        let (_, found) = topology.interface(interface).unwrap();
        let links = found.links.iter();
        links
            .map(|link| topology.about(*link).unwrap().name.clone())
            .collect()
    }

    #[test]
    fn links_that_several_circuits_share_are_found() {
        let shared = |circuits: &[(u32, u32, &str)]| {
            let links = config(circuits).devices.links.into_iter();
            let links = links.map(|link| (link.name, link.routes.len()));
            links.collect::<Vec<_>>()
        };
        let expected = [("port 1 in".to_owned(), 2)];
        assert_eq!(shared(&[(1, 3, "eth1"), (1, 4, "eth2")]), expected);
        assert_eq!(shared(&[(1, 3, "eth1"), (1, 4, "eth1")]), expected);
        assert_eq!(shared(&[(1, 3, "eth1"), (2, 4, "eth2")]), []);
    }

    /// Two nodes with two links between them: each pair of ports has two routes.
    #[test]
    fn links_that_only_some_routes_cross_are_shared_by_those_routes() {
        let mut text = String::from(
            "domain = 1\nname = \"one\"\nlisten = \"127.0.0.1:0\"\nkey = \"key\"\nstore = \"store\"\n",
        );
        let ports = [(1, "west"), (2, "west"), (3, "east"), (4, "east")].map(|(number, node)| {
            format!("[[port]]\nnumber = {number}\nnode = \"{node}\"\ncapacity = \"1Gb/s\"\n")
        });
        let links = [("upper", 1), ("lower", 2)].map(|(name, cost)| {
            format!(
                "[[link]]\nname = \"{name}\"\nfrom = \"west\"\nto = \"east\"\ncapacity = \"1Gb/s\"\ncost = {cost}\n"
            )
        });
        let circuits = [(1, 3), (2, 4)].map(|(ingress, egress)| {
            format!(
                "[[device]]\ninterface = \"eth{ingress}\"\ncapacity = \"1Gb/s\"\n\
                 [[circuit]]\ningress = {ingress}\negress = {egress}\ninterface = \"eth{ingress}\"\nflow = \"10.0.0.{egress}\"\n"
            )
        });
        text.extend(ports.into_iter().chain(links).chain(circuits));
        let config = DomainConfig::parse(&text, Path::new("/")).unwrap();
        let segment = |ingress, egress| Segment {
            ingress: PortId(ingress),
            egress: PortId(egress),
        };
        let (one, two) = (segment(1, 3), segment(2, 4));
        let shared = config.devices.links.iter();
        let shared = shared.map(|link| (link.name.as_str(), link.routes.clone()));
        let expected = [
            ("upper", [(one, 0), (two, 0)].into()),
            ("lower", [(one, 1), (two, 1)].into()),
        ];
        assert_eq!(shared.collect::<Vec<_>>(), expected);
        // the first path takes the whole cheap link, and the second one the other link
        let mut resources = config.resources();
        let routes = [one, two].map(|segment| {
            let key = example::key(u128::from(segment.ingress.0));
            let vector = "1s-2s 1Gb/s".parse().unwrap();
            let held = resources.hold(Instant::ZERO, key, &[segment], &vector);
            assert_eq!(held, Ok(()));
            let links = resources.links_of(key, segment).unwrap();
            config.devices.route_of(segment, links)
        });
        assert_eq!(routes, [0, 1]);
    }

    #[test]
    fn interface_limits_the_ports_that_its_circuits_leave_by() {
        let circuits = [(1, 3, "eth1"), (2, 3, "eth1"), (1, 4, "eth2")];
        let both = [("eth1", able(300, 2)), ("eth2", able(500, 1))];
        let config = add_to(&circuits, &both).unwrap();
        assert_eq!(links_of(&config, "eth1"), ["port 3 out"]);
        assert_eq!(links_of(&config, "eth2"), ["port 4 out"]);
        let (_, eth1) = config.network.topology.interface("eth1").unwrap();
        let limits = eth1.limits.unwrap();
        assert_eq!(
            (limits.capacity, limits.channel, limits.least),
            (
                Rate::from_mbps(300),
                Rate::from_mbps(10),
                Rate::from_mbps(20)
            )
        );
        assert_eq!(
            (limits.guard, limits.circuits_max),
            (Duration::from_millis(7), 2)
        );
    }

    #[test]
    fn guard_time_and_counted_bytes_lengthen_the_paths_that_are_offered() {
        let counted = CountedBytes {
            layer: Layer::Link,
            overhead_bytes: 4,
        };
        let able = Capabilities {
            counted,
            ..able(300, 2)
        };
        let config = add_to(&[(1, 3, "eth1")], &[("eth1", able)]).unwrap();
        let (from, till) = (Instant::ZERO, Instant::ZERO + Duration::from_mins(1));
        let free = |ingress: u32, egress: u32| {
            let segment = Segment {
                ingress: PortId(ingress),
                egress: PortId(egress),
            };
            config.resources().free(segment, from, till).unwrap()
        };
        let limited = free(1, 3);
        let losses = Losses {
            guard: Duration::from_millis(7),
            packet_bytes: 18,
        };
        assert_eq!(limited.losses(), losses);
        assert_eq!(free(1, 4).losses(), Losses::default());
        let demand = Demand {
            bytes: 37_500_000,
            rate_max: Rate::from_mbps(300),
            rate_min: Rate::from_mbps(300),
        };
        let vector = limited.fit(&demand, from).unwrap();
        // one second for 25,000 packets of 1500 bytes, and 18 bytes more for each
        let expected = Duration::from_millis(1000 + 12 + 7);
        assert_eq!(vector.end().since(vector.start()), expected);
    }

    #[test]
    fn interface_limits_the_ports_that_its_circuits_enter_by() {
        let circuits = [(1, 3, "eth1"), (2, 3, "eth2"), (1, 4, "eth1")];
        let config = add_to(&circuits, &[("eth1", able(300, 2))]).unwrap();
        assert_eq!(links_of(&config, "eth1"), ["port 1 in"]);
    }

    #[test]
    fn interface_without_circuits_limits_no_link() {
        let config = add_to(&[(1, 3, "eth1")], &[("eth2", able(300, 2))]).unwrap();
        assert!(config.network.topology.interfaces().is_empty());
    }

    #[test]
    fn ports_that_are_shared_in_both_directions_are_refused() {
        let circuits = [(1, 3, "eth1"), (2, 3, "eth2"), (1, 4, "eth2")];
        let why = add_to(&circuits, &[("eth1", able(300, 2))]).unwrap_err();
        assert_eq!(why, ConfigFault::MixedPorts("eth1".into()));
    }

    #[test]
    fn more_circuits_than_the_device_has_are_refused() {
        let circuits = [(1, 3, "eth1"), (2, 3, "eth1")];
        let why = add_to(&circuits, &[("eth1", able(300, 1))]).unwrap_err();
        let text = why.to_string();
        assert!(
            text.starts_with("interface eth1 has 2 circuits, and its device can have 1"),
            "{text}"
        );
    }
}
