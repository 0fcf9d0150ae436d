//! Topologies in `GraphML`, as in the Internet Topology Zoo (Knight et al. 2011).
//!
//! An edge is a link in each direction, unless the graph has directed edges. The data
//! `LinkSpeedRaw` is its rate in bits a second, and `interfaces` lists interfaces of its link from
//! source to target, separated by commas. The data `label` of a node is its name.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_calendar::topology::TopologyError;
use lighthaul_calendar::{Link, Topology};
use roxmltree::{Document, Node};

use super::toml::CHANNEL;
use crate::error::TopologyFileError;

/// Parses a topology. `capacity` is the default capacity of links.
pub fn parse(text: &str, capacity: Option<Rate>) -> Result<Topology, TopologyFileError> {
    let document =
        Document::parse(text).map_err(|why| TopologyFileError::NotGraphml(why.to_string()))?;
    let find = |name| {
        document
            .descendants()
            .find(move |node| node.tag_name().name() == name)
    };
    let graph =
        find("graph").ok_or_else(|| TopologyFileError::NotGraphml("it has no graph".to_owned()))?;
    let keys: Keys<'_> = document
        .descendants()
        .filter(|node| node.tag_name().name() == "key")
        .filter_map(|key| {
            Some((
                (key.attribute("for")?, key.attribute("attr.name")?),
                key.attribute("id")?,
            ))
        })
        .collect();
    let parts = |name: &'static str| {
        graph
            .children()
            .filter(move |node| node.tag_name().name() == name)
    };
    let mut names = BTreeMap::new();
    let mut nodes = Vec::new();
    for node in parts("node") {
        let id = attribute(node, "id")?;
        let name = data(node, &keys, "label").unwrap_or(id).to_owned();
        if names.insert(id, name.clone()).is_some() {
            return Err(TopologyFileError::DuplicateId(id.to_owned()));
        }
        nodes.push(name);
    }
    let is_directed = graph.attribute("edgedefault") == Some("directed");
    let mut links = Links::default();
    let mut ports = Vec::new();
    for edge in parts("edge") {
        let end = |what| {
            let id = attribute(edge, what)?;
            names
                .get(id)
                .ok_or_else(|| TopologyFileError::UnknownId(id.to_owned()))
        };
        let (from, to) = (end("source")?, end("target")?);
        let speed = data(edge, &keys, "LinkSpeedRaw").map(speed).transpose()?;
        let speed = speed.or(capacity).ok_or_else(|| {
            let (from, to) = (from.clone(), to.clone());
            TopologyFileError::NoSpeed { from, to }
        })?;
        let name = links.add(from, to, speed);
        let interfaces = data(edge, &keys, "interfaces").unwrap_or_default();
        ports.push((interfaces, name));
        if !is_directed && from != to {
            links.add(to, from, speed);
        }
    }
    Ok(attach(Topology::new(nodes, links.all)?, &ports)?)
}

/// Adds the comma-separated interfaces of each link.
fn attach(mut topology: Topology, ports: &[(&str, String)]) -> Result<Topology, TopologyError> {
    for (interfaces, link) in ports {
        let link = topology.link(link);
        let names = interfaces.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            topology.attach(name, link.as_slice())?;
        }
    }
    Ok(topology)
}

/// Identifiers of data, by element and name.
type Keys<'a> = BTreeMap<(&'a str, &'a str), &'a str>;

/// Links found in the file. Several may connect the same two nodes.
#[derive(Default)]
struct Links {
    all: Vec<Link>,
    counts: BTreeMap<(String, String), u32>,
}

impl Links {
    fn add(&mut self, from: &str, to: &str, capacity: Rate) -> String {
        let count = self
            .counts
            .entry((from.to_owned(), to.to_owned()))
            .or_default();
        *count += 1;
        let name = match *count {
            1 => format!("{from}-{to}"),
            nth => format!("{from}-{to}-{nth}"),
        };
        self.all.push(Link {
            name: name.clone(),
            from: from.to_owned(),
            to: to.to_owned(),
            capacity,
            channel: CHANNEL.min(capacity),
            guard: Duration::ZERO,
            cost: 1,
        });
        name
    }
}

fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, TopologyFileError> {
    let missing =
        || TopologyFileError::NotGraphml(format!("a {} has no {name}", node.tag_name().name()));
    node.attribute(name).ok_or_else(missing)
}

/// Returns a data value of a node or an edge.
fn data<'a>(of: Node<'a, '_>, keys: &Keys<'a>, name: &'a str) -> Option<&'a str> {
    let id = keys.get(&(of.tag_name().name(), name))?;
    let found = of
        .children()
        .find(|child| child.attribute("key") == Some(id))?;
    found.text().map(str::trim).filter(|text| !text.is_empty())
}

/// Parses bits a second, which the Topology Zoo writes as `10000000000.0`.
fn speed(text: &str) -> Result<Rate, TopologyFileError> {
    // also accepts a value with a unit
    let raw = format!("{}b/s", text.trim());
    let rate = raw.parse().or_else(|_| text.parse());
    rate.map_err(|_| TopologyFileError::Speed(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a graph in the form of the Topology Zoo.
    fn zoo(edges: &str) -> String {
        format!(
            r#"<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
            <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d36" />
            <key attr.name="label" attr.type="string" for="node" id="d33" />
            <graph edgedefault="undirected">
              <node id="0"><data key="d33">New York</data></node><node id="1"><data key="d33">Chicago</data></node>
              <node id="2"/>{edges}</graph></graphml>"#
        )
    }

    #[test]
    fn undirected_graph_has_a_link_in_each_direction() {
        let edges = r#"<edge source="0" target="1"><data key="d36">10000000000.0</data></edge>
            <edge source="0" target="1"><data key="d36">622000000</data></edge><edge source="1" target="2"/>"#;
        let topology = parse(&zoo(edges), Some(Rate::from_mbps(100))).unwrap();
        let rate = |name| {
            topology
                .about(topology.link(name).unwrap())
                .unwrap()
                .capacity
        };
        assert_eq!(rate("New York-Chicago"), Rate::from_mbps(10_000));
        assert_eq!(rate("Chicago-New York-2"), Rate::from_mbps(622));
        assert_eq!(rate("2-Chicago"), Rate::from_mbps(100));
        assert_eq!(topology.links().count(), 6);
    }

    #[test]
    fn faulty_graph_is_refused_with_a_reason() {
        let join = r#"<edge source="1" target="2"/>"#;
        for (text, says) in [
            ("hello".to_owned(), "not GraphML"),
            ("<svg/>".to_owned(), "no graph"),
            (zoo(join), "no links connect"),
            (
                zoo(r#"<edge source="0" target="0"/>"#),
                "two different ends",
            ),
            (zoo(r#"<edge source="0" target="9"/>"#), "ends at 9"),
            (zoo(r#"<edge source="0"/>"#), "no target"),
            (zoo(r#"<node id="0"/>"#), "two nodes have the id 0"),
            (
                zoo(r#"<node id="3"><data key="d33">Chicago</data></node>"#),
                "at least one link",
            ),
            (
                zoo(&format!(
                    r#"<node id="3"><data key="d33">Chicago</data></node>{join}"#
                )),
                "name Chicago is used twice",
            ),
            (
                zoo(r#"<edge source="0" target="1"><data key="d36">x</data></edge>"#),
                "is not a rate",
            ),
            (
                "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>".to_owned(),
                "not GraphML",
            ),
        ] {
            let why = parse(&text, Some(Rate::from_mbps(1)))
                .unwrap_err()
                .to_string();
            assert!(why.contains(says), "{text}: {why}");
        }
        let why = parse(&zoo(join), None).unwrap_err().to_string();
        assert!(why.contains("--link-capacity"), "{why}");
    }
}
