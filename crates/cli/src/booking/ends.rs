//! From where to where a copy goes, as people, the scheduler and the network call it.

use std::fs;
use std::net::ToSocketAddrs;

use lighthaul_scheduler::word::FlowAt;
use lighthaul_transfer::error::{Code, Error};

use crate::args::Cp;
use crate::remote::Place;

/// From where to where, as people and the scheduler call it.
pub(super) struct Ends {
    pub(super) sources: Vec<Place>,
    pub(super) target: Place,
    pub(super) from: String,
    pub(super) to: String,
}

impl Ends {
    pub(super) fn of(args: &Cp) -> Result<Self, Error> {
        let places = args.paths.iter().map(|text| Place::parse(text));
        let mut sources: Vec<Place> = places.collect::<Result<_, _>>()?;
        let (Some(target), Some(source)) = (sources.pop(), sources.first()) else {
            return Err(misuse("say what to copy, and where to"));
        };
        let here = || args.booked.node.clone().map_or_else(own_name, Ok);
        let far = |place: &Place| args.booked.far_node.clone().unwrap_or_else(|| host(place));
        let (from, to) = match (source, &target) {
            (Place::Here(_), Place::Here(_)) => {
                return Err(misuse("neither side is remote: write one as HOST:PATH"));
            }
            (Place::Here(_), target) => (here()?, far(target)),
            (source, Place::Here(_)) => (far(source), here()?),
            // between two others --node is the one that sends
            (source, target) => {
                let node = args.booked.node.clone();
                (node.unwrap_or_else(|| host(source)), far(target))
            }
        };
        Ok(Self {
            sources,
            target,
            from,
            to,
        })
    }
}

/// What a place's host is called.
fn host(place: &Place) -> String {
    match place {
        Place::Here(_) => String::new(),
        Place::Daemon { host, .. } => host.clone(),
        Place::Ssh { host, .. } => host.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}

/// The packets that go to a place, and where they meet their circuit: what comes here is not known by its address.
pub(super) fn flow_to(target: &Place, interface: &str) -> Result<FlowAt, Error> {
    let words = if let Place::Here(_) = target {
        "udp".to_owned()
    } else {
        let host = host(target);
        let unknown = || Error::new(Code::Network, format!("{host} has no address"));
        let mut addresses = (host.as_str(), 0)
            .to_socket_addrs()
            .map_err(|_| unknown())?;
        format!("udp {}", addresses.next().ok_or_else(unknown)?.ip())
    };
    let packets = words.parse().map_err(|why| misuse(&format!("{why}")))?;
    Ok(FlowAt {
        interface: interface.to_owned(),
        packets,
    })
}

/// The name of this host.
fn own_name() -> Result<String, Error> {
    let path = "/proc/sys/kernel/hostname";
    let name = fs::read_to_string(path);
    name.map(|name| name.trim().to_owned())
        .map_err(|_| misuse("this host has no name: say with --node what the scheduler calls it"))
}

fn misuse(text: &str) -> Error {
    Error::new(Code::Usage, text)
}
