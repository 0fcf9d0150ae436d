//! Source and target of a copy, with the names that users, the scheduler and the network have for them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

use lighthaul_booking_client::json::FlowAt;
use lighthaul_remote::error::Fault as RemoteFault;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::copy::job::Job;
use crate::fault::Fault;
use crate::request::Booking;

/// Source and target with their names in the topology.
pub(super) struct Endpoints {
    source: Place,
    target: Place,
    pub(super) from: String,
    pub(super) to: String,
}

impl Endpoints {
    pub(super) fn of(job: &Job, booking: &Booking) -> Result<Self, Error> {
        let (sources, target) = (&job.request.sources, &job.request.target);
        let source = sources.first().ok_or(Fault::NoSource)?;
        let here = || booking.node.clone().map_or_else(own_name, Ok);
        let far = |place: &Place| booking.far_node.clone().unwrap_or_else(|| host(place));
        let (from, to) = match (source, target) {
            (Place::Here(_), Place::Here(_)) => {
                return Err(RemoteFault::NotRemote.into());
            }
            (Place::Here(_), target) => (here()?, far(target)),
            (source, Place::Here(_)) => (far(source), here()?),
            // between two remote hosts the node is the one that sends
            (source, target) => {
                let node = booking.node.clone();
                (node.unwrap_or_else(|| host(source)), far(target))
            }
        };
        Ok(Self {
            source: source.clone(),
            target: target.clone(),
            from,
            to,
        })
    }
}

/// Returns the host name of a place.
fn host(place: &Place) -> String {
    match place {
        Place::Here(_) => String::new(),
        Place::Daemon { host, .. } | Place::Object { bucket: host, .. } => host.clone(),
        Place::Ssh { host, .. } => host.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}

impl Endpoints {
    /// Returns the packets to the target, and the interface of their circuit.
    pub(super) fn flow(&self, interface: &str) -> Result<FlowAt, Error> {
        let address = match &self.target {
            Place::Here(_) => own_address(address(&self.source)?)?,
            target @ (Place::Ssh { .. } | Place::Daemon { .. } | Place::Object { .. }) => {
                address(target)?
            }
        };
        flow_to(address, interface)
    }
}

/// Returns the first address of a place's host.
fn address(place: &Place) -> Result<IpAddr, Error> {
    let host = host(place);
    let unknown = || Error::from(Fault::NoAddress(host.clone()));
    let addresses = (host.as_str(), 0).to_socket_addrs();
    let first = addresses.map_err(|_| unknown())?.next();
    Ok(first.ok_or_else(unknown)?.ip())
}

/// Returns the address of this host on the route to another host.
#[expect(clippy::disallowed_methods, reason = "nothing is sent")]
fn own_address(far: IpAddr) -> Result<IpAddr, Error> {
    let any: IpAddr = if far.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let found = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((far, DISCARD))?;
        socket.local_addr()
    });
    let address = found.map_err(|error| Fault::NoRoute { far, error })?;
    Ok(address.ip())
}

fn flow_to(address: IpAddr, interface: &str) -> Result<FlowAt, Error> {
    let packets = format!("udp {address}");
    let packets = packets
        .parse()
        .map_err(|why| Fault::Packets(format!("{why}")))?;
    Ok(FlowAt {
        interface: interface.to_owned(),
        packets,
    })
}

/// Returns the name of this host.
fn own_name() -> Result<String, Error> {
    let path = "/proc/sys/kernel/hostname";
    let name = fs::read_to_string(path);
    let name = name.map(|name| name.trim().to_owned());
    Ok(name.map_err(|_| Fault::NoName)?)
}

/// Port for the search of a route; any port works.
const DISCARD: u16 = 9;
