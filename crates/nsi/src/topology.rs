//! Documents about the network and about the agent.
//!
//! [`nml`] describes the network as ports with their labels (NML, GFD.206, with the extension of
//! NSI). [`description`] describes the agent, its interfaces and its role, for discovery.

use lighthaul_booking_client::json::Timestamp;

use crate::message::name::PROVIDER_PROTOCOL;
use crate::provider::Config;
use crate::provider::stp::Stp;
use crate::xml::writer::Writer;

/// Returns the topology of a network. `nodes` are those of the scheduler.
pub fn nml(config: &Config, version: Timestamp, nodes: &[String]) -> String {
    let mut w = Writer::document();
    let version = version.to_string();
    let attributes = [
        ("xmlns:nml", NML),
        ("xmlns:sd", SERVICE_DEFINITION),
        ("id", config.network.as_str()),
        ("version", &version),
    ];
    let service = format!("{}:sd", config.network);
    w.element("nml:Topology", &attributes, |w| {
        w.text("nml:name", &config.name);
        for stp in &config.stps {
            bidirectional(stp, w);
        }
        w.element("sd:serviceDefinition", &[("id", &service)], |w| {
            w.text("name", "Point-to-point circuits with a constant rate");
            w.text("serviceType", &config.service_type);
        });
        relation("hasService", w, |w| {
            let id = format!("{}:switch", config.network);
            let attributes = [
                ("id", id.as_str()),
                ("labelSwapping", "true"),
                ("labelType", VLAN),
            ];
            w.element("nml:SwitchingService", &attributes, |w| {
                for (relation_name, end) in DIRECTIONS {
                    relation(relation_name, w, |w| {
                        for stp in &config.stps {
                            let id = format!("{}:{end}", stp.id);
                            w.element("nml:PortGroup", &[("id", &id)], |_| {});
                        }
                    });
                }
                w.element("sd:serviceDefinition", &[("id", &service)], |_| {});
            });
        });
        for (relation_name, end) in DIRECTIONS {
            relation(relation_name, w, |w| {
                config.stps.iter().for_each(|stp| port_group(stp, end, w));
            });
        }
        for node in nodes {
            let id = format!("{}:node:{node}", config.network);
            w.element("nml:Node", &[("id", &id)], |w| w.text("nml:name", node));
        }
    });
    w.finish()
}

/// Returns the description of the agent (`application/vnd.ogf.nsi.nsa.v1+xml`). `started` is the
/// start of the service.
pub fn description(config: &Config, version: &str, started: Timestamp) -> String {
    let mut w = Writer::document();
    let at = started.to_string();
    let attributes = [
        ("xmlns:nsa", DISCOVERY),
        ("id", config.nsa.as_str()),
        ("version", &at),
    ];
    w.element("nsa:nsa", &attributes, |w| {
        w.text("name", &config.name);
        w.text("softwareVersion", version);
        w.text("startTime", &at);
        w.text("networkId", &config.network);
        let url = config.url.as_deref().unwrap_or_default();
        for (kind, path) in [
            (TOPOLOGY_TYPE, TOPOLOGY_PATH),
            (PROVIDER_PROTOCOL, PROVIDER_PATH),
        ] {
            w.element("interface", &[], |w| {
                w.text("type", kind);
                w.text("href", format!("{url}{path}"));
            });
        }
        w.element("feature", &[("type", "vnd.ogf.nsi.cs.v2.role.uPA")], |_| {});
        for requester in &config.requesters {
            w.text("peersWith", &requester.nsa);
        }
    });
    w.finish()
}

fn bidirectional(stp: &Stp, w: &mut Writer) {
    w.element("nml:BidirectionalPort", &[("id", &stp.id)], |w| {
        w.text("nml:name", &stp.port);
        for (_, end) in DIRECTIONS {
            let id = format!("{}:{end}", stp.id);
            w.element("nml:PortGroup", &[("id", &id)], |_| {});
        }
    });
}

fn port_group(stp: &Stp, end: &str, w: &mut Writer) {
    let id = format!("{}:{end}", stp.id);
    w.element("nml:PortGroup", &[("id", &id)], |w| {
        if let Some(labels) = &stp.labels {
            w.element("nml:LabelGroup", &[("labeltype", VLAN)], |w| {
                w.escape(&labels.to_string());
            });
        }
        if let Some(alias) = &stp.alias {
            // what leaves here enters there
            let other = if end == "in" { "out" } else { "in" };
            let id = format!("{alias}:{other}");
            relation("isAlias", w, |w| {
                w.element("nml:PortGroup", &[("id", &id)], |_| {});
            });
        }
    });
}

fn relation(name: &str, w: &mut Writer, inside: impl FnOnce(&mut Writer)) {
    w.element("nml:Relation", &[("type", &format!("{NML}{name}"))], inside);
}

/// Path of the provider at the scheduler.
pub const PROVIDER_PATH: &str = "/nsi/v2/provider";
/// Path of the topology.
pub const TOPOLOGY_PATH: &str = "/nsi/v2/topology";
/// Path of the description of the agent.
pub const DESCRIPTION_PATH: &str = "/nsi/v2/nsa";
/// Media type of the topology.
pub const TOPOLOGY_TYPE: &str = "application/vnd.ogf.nsi.topology.v2+xml";
/// Media type of the description of the agent.
pub const DESCRIPTION_TYPE: &str = "application/vnd.ogf.nsi.nsa.v1+xml";

const NML: &str = "http://schemas.ogf.org/nml/2013/05/base#";
const VLAN: &str = "http://schemas.ogf.org/nml/2012/10/ethernet#vlan";
const SERVICE_DEFINITION: &str = "http://schemas.ogf.org/nsi/2013/12/services/definition";
const DISCOVERY: &str = "http://schemas.ogf.org/nsi/2014/02/discovery/nsa";
const DIRECTIONS: [(&str, &str); 2] = [("hasInboundPort", "in"), ("hasOutboundPort", "out")];
