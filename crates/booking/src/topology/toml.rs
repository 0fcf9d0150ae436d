//! Topologies in TOML.
//!
//! ```toml
//! [[link]]
//! name = "chicago-amsterdam"
//! from = "chicago"
//! to = "amsterdam"
//! capacity = "10Gb/s" # [default: --link-capacity]
//! channel = "1Gb/s"    # unit of rates [default: 1 Mb/s]
//! guard = "50ms"       # guard time [default: none]
//! cost = 3             # [default: 1]
//! both = true          # adds the reverse link `amsterdam-chicago`, or the name in `back`
//! interfaces = ["eth1"]       # interfaces for circuits [default: none]
//! back_interfaces = ["eth2"]  # interfaces of the reverse link
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::config_fault::fault_in;
use lighthaul_booking_client::json::{IsoDuration, WithUnit};
use lighthaul_calendar::topology::TopologyError;
use lighthaul_calendar::{Link, Topology};
use serde::Deserialize;

use crate::error::TopologyFileError;

/// Parses a topology. Its nodes are the listed nodes and the ends of its links. `capacity` is the
/// default capacity of links.
pub fn parse(text: &str, capacity: Option<Rate>) -> Result<Topology, TopologyFileError> {
    let file: File = ::toml::from_str(text)
        .map_err(|why| TopologyFileError::Toml(fault_in(text, why.span(), why.message())))?;
    let mut seen: BTreeSet<&str> = file.nodes.iter().map(String::as_str).collect();
    let mut nodes = file.nodes.clone();
    for link in &file.link {
        for end in [&link.from, &link.to] {
            if seen.insert(end) {
                nodes.push(end.clone());
            }
        }
    }
    let mut links = Vec::with_capacity(file.link.len() * 2);
    for written in &file.link {
        let there = written.link(capacity)?;
        let back = written.both.then(|| Link {
            name: written.name_of_back(),
            from: there.to.clone(),
            to: there.from.clone(),
            ..there.clone()
        });
        links.push(there);
        links.extend(back);
    }
    let mut topology = Topology::new(nodes, links)?;
    attach(&mut topology, &file.link)?;
    Ok(topology)
}

/// Adds the interfaces of each link.
fn attach(topology: &mut Topology, links: &[LinkTable]) -> Result<(), TopologyError> {
    for written in links {
        let back = written.both.then(|| written.name_of_back());
        let there = (Some(written.name()), &written.interfaces);
        for (link, interfaces) in [there, (back, &written.back_interfaces)] {
            let link = link.and_then(|name| topology.link(&name));
            for interface in interfaces {
                topology.attach(interface, link.as_slice())?;
            }
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    nodes: Vec<String>,
    #[serde(default)]
    link: Vec<LinkTable>,
}

/// Link as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    name: Option<String>,
    from: String,
    to: String,
    capacity: Option<WithUnit<Rate>>,
    channel: Option<WithUnit<Rate>>,
    guard: Option<WithUnit<IsoDuration>>,
    cost: Option<u32>,
    #[serde(default)]
    both: bool,
    back: Option<String>,
    #[serde(default)]
    interfaces: Vec<String>,
    #[serde(default)]
    back_interfaces: Vec<String>,
}

impl LinkTable {
    fn link(&self, usual: Option<Rate>) -> Result<Link, TopologyFileError> {
        let name = self.name();
        let capacity = self.capacity.as_ref().map(|capacity| capacity.0);
        let capacity = capacity.or(usual);
        let capacity = capacity.ok_or_else(|| TopologyFileError::NoCapacity(name.clone()))?;
        let channel = self.channel.as_ref().map(|channel| channel.0);
        Ok(Link {
            capacity,
            channel: channel.unwrap_or_else(|| CHANNEL.min(capacity)),
            guard: self
                .guard
                .as_ref()
                .map_or(Duration::ZERO, |guard| guard.0.0),
            cost: self.cost.unwrap_or(1),
            from: self.from.clone(),
            to: self.to.clone(),
            name,
        })
    }

    fn name(&self) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| format!("{}-{}", self.from, self.to))
    }

    fn name_of_back(&self) -> String {
        self.back
            .clone()
            .unwrap_or_else(|| format!("{}-{}", self.to, self.from))
    }
}

/// Default channel of a link.
pub(super) const CHANNEL: Rate = Rate::from_mbps(1);

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
        nodes = ["here"]
        [[link]]
        from = "here"
        to = "there"
        capacity = "10Gb/s"
        channel = "1Gb/s"
        guard = "50ms"
        cost = 3
        both = true
        [[link]]
        name = "slow"
        from = "here"
        to = "there"
        capacity = "500kb/s"
    "#;

    #[test]
    fn links_are_parsed_with_units_and_defaults() {
        let topology = parse(TWO, None).unwrap();
        let about = |name| topology.about(topology.link(name).unwrap()).unwrap();
        let back = about("there-here");
        assert_eq!(
            (back.capacity, back.channel, back.cost),
            (Rate::from_mbps(10_000), Rate::from_mbps(1000), 3)
        );
        assert_eq!((back.from.as_str(), back.guard.as_millis()), ("there", 50));
        assert_eq!(
            about("slow").channel,
            about("slow").capacity,
            "the default channel does not exceed the capacity"
        );
        assert_eq!(
            topology.nodes().map(|(_, name)| name).collect::<Vec<_>>(),
            ["here", "there"]
        );
    }

    #[test]
    fn interfaces_have_the_links_that_name_the_interface() {
        let text = format!(
            "{TWO}\n[[link]]\nfrom='here'\nto='x'\ncapacity='1G'\nboth=true\ninterfaces=['eth1', 'eth2']\nback_interfaces=['eth3']"
        );
        let topology = parse(&text, None).unwrap();
        let links = |name: &str| {
            let (_, port) = topology.interface(name)?;
            assert_eq!(port.limits, None);
            let names = port.links.iter();
            Some(
                names
                    .map(|id| topology.about(*id).unwrap().name.clone())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(links("eth1"), Some(vec!["here-x".to_owned()]));
        assert_eq!(links("eth2"), links("eth1"));
        assert_eq!(links("eth3"), Some(vec!["x-here".to_owned()]));
        assert_eq!(links("eth4"), None);
    }

    #[test]
    fn faulty_topology_is_refused_with_a_reason() {
        let link = "[[link]]\nfrom='a'\nto='b'\ncapacity='1G'\n";
        for (text, says) in [
            (String::new(), "at least one link"),
            (format!("{link}{link}"), "name a-b is used twice"),
            (format!("nodes=['c']\n{link}"), "no links connect"),
            (
                "[[link]]\nfrom='a'\nto='a'\ncapacity='1G'".into(),
                "two different ends",
            ),
            (
                "[[link]]\nfrom='a'\nto='b'\ncapacity=1000000".into(),
                "line 4, column 10: a rate needs a unit, as in 900Mb/s",
            ),
            (format!("{link}channel=1"), "needs a unit"),
            (format!("{link}guard=1"), "as in 250ms, 90s"),
            (
                "[[link]]\nfrom='a'\nto='b'\ncapacity='fast'".into(),
                "900Mb/s",
            ),
            (
                "[[link]]\nfrom='a'\nto='b'".into(),
                "link a-b has no capacity: give it one, or all that have none with --link-capacity",
            ),
            (
                format!("{link}colour='red'"),
                "line 5, column 1: unknown field `colour`",
            ),
            ("[[link]]\nfrom='a".into(), "line 2, column 8: "),
            (format!("{link}channel='2G'"), "to the capacity of the link"),
            (format!("{link}guard='2h'"), "more than an hour"),
            (format!("{link}interfaces=['']"), "no link starts or ends"),
        ] {
            let why = parse(&text, None).unwrap_err().to_string();
            assert!(why.contains(says) && !why.contains('\n'), "{text}: {why}");
        }
    }

    #[test]
    fn links_without_a_capacity_have_the_default() {
        let text =
            "[[link]]\nfrom='a'\nto='b'\nboth=true\n[[link]]\nfrom='b'\nto='c'\ncapacity='1G'";
        let topology = parse(text, Some(Rate::from_mbps(300))).unwrap();
        let capacity = |name| {
            let link = topology.link(name).unwrap();
            topology.about(link).unwrap().capacity
        };
        assert_eq!(["a-b", "b-a"].map(capacity), [Rate::from_mbps(300); 2]);
        assert_eq!(capacity("b-c"), Rate::from_mbps(1000));
    }
}
