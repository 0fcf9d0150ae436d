//! Messages between gateways about links and sessions.
//!
//! A link begins with a greeting in each direction, as messages of a session between two daemons. Then control
//! messages and packets follow, in the format of `lighthaul_slabs::wire`.

use std::net::{IpAddr, SocketAddr};

use lighthaul_base::{Malformed, Reader};
use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::target::{Host, Target};
use serde::{Deserialize, Serialize};

/// Greeting of the gateway that connects, and answer of the other gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Name of the link, chosen by the gateway that started the link. The answer repeats it.
    pub link: [u8; 16],
    /// Number of messages that were received on the link; none if the link is new.
    pub received: Option<u64>,
    /// Bytes that a session may send before it needs more window.
    pub window: u32,
    /// Length of the longest datagram that arrived, without its UDP header.
    pub datagram_len: u16,
}

/// Target of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Number of gateways that the session may still cross.
    pub hops: u8,
    /// Target that the program asks for.
    pub target: Target,
}

impl Opening {
    /// Encodes the opening.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.hops];
        self.target.put(&mut out);
        out
    }

    /// Decodes the octets of [`Self::encode`].
    pub fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let opening = Self {
            hops: reader.u8()?.min(HOPS_MAX),
            target: Target::read(&mut reader)?,
        };
        reader.finish()?;
        Ok(opening)
    }
}

/// Encodes the local address of the connection to the target.
pub fn encode_reached(from: SocketAddr) -> Vec<u8> {
    let mut out = Vec::new();
    let host = Host::Ip(from.ip());
    let port = from.port();
    Target { host, port }.put(&mut out);
    out
}

/// Decodes the octets of [`encode_reached`].
pub fn decode_reached(octets: &[u8]) -> Result<SocketAddr, Malformed> {
    let mut reader = Reader::new(octets);
    let target = Target::read(&mut reader)?;
    reader.finish()?;
    match target.host {
        Host::Ip(ip) => Ok(SocketAddr::new(ip, target.port)),
        Host::Name(_) => Err(Malformed),
    }
}

/// Encodes the reason of a refusal.
pub fn encode_refusal(refusal: Refusal) -> Vec<u8> {
    let number = Refusal::ALL.iter().position(|one| *one == refusal);
    vec![number.unwrap_or_default() as u8]
}

/// Decodes the octets of [`encode_refusal`]; an unknown reason is [`Refusal::Broken`].
pub fn decode_refusal(octets: &[u8]) -> Refusal {
    let number = octets.first().map(|octet| usize::from(*octet));
    let known = number.and_then(|number| Refusal::ALL.get(number));
    known.copied().unwrap_or(Refusal::Broken)
}

/// Placeholder for an unknown address.
pub const UNKNOWN_ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// Maximum number of gateways that a session may cross.
pub const HOPS_MAX: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let opening = Opening {
            hops: 8,
            target: "example.org:443".parse().unwrap(),
        };
        assert_eq!(Opening::decode(&opening.encode()), Ok(opening.clone()));
        let endless = Opening {
            hops: u8::MAX,
            ..opening
        };
        let read = Opening::decode(&endless.encode()).unwrap();
        assert_eq!(read.hops, HOPS_MAX, "the number is limited");
        let from = "[2001:db8::1]:5000".parse().unwrap();
        assert_eq!(decode_reached(&encode_reached(from)), Ok(from));
        for refusal in Refusal::ALL {
            assert_eq!(decode_refusal(&encode_refusal(refusal)), refusal);
        }
        assert_eq!(decode_refusal(&[]), Refusal::Broken);
    }
}
