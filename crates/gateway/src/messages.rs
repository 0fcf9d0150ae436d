//! What gateways say to each other about links and sessions.
//!
//! A link begins with two greetings, one each way, as messages of a session between two Lighthaul hosts. Then letters and packets
//! follow as `lighthaul_proto::slabs::wire` has them.

use std::net::{IpAddr, SocketAddr};

use lighthaul_base::{Malformed, Reader};
use serde::{Deserialize, Serialize};

use crate::capture::refusal::Refusal;
use crate::target::{Host, Target};

/// What the gateway that calls says of a link, and what the other answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// What the caller's end of the link is called; whoever answers says the same.
    pub link: [u8; 16],
    /// How many messages of the other it has heard on it; nothing if the link is new.
    pub heard: Option<u64>,
    /// Bytes that a session may send before it is told more.
    pub window: u32,
    /// The longest datagram that it got, without its UDP header.
    pub datagram_len: u16,
}

/// Where a session is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Gateways that it may still cross.
    pub hops: u8,
    /// Where the program wants to go.
    pub target: Target,
}

impl Opening {
    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.hops];
        self.target.put(&mut out);
        out
    }

    /// Reads what [`Self::encode`] wrote.
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

/// How the target was reached: the address from which it was called.
pub fn encode_reached(from: SocketAddr) -> Vec<u8> {
    let mut out = Vec::new();
    let host = Host::Ip(from.ip());
    let port = from.port();
    Target { host, port }.put(&mut out);
    out
}

/// Reads what [`encode_reached`] wrote.
pub fn decode_reached(octets: &[u8]) -> Result<SocketAddr, Malformed> {
    let mut reader = Reader::new(octets);
    let target = Target::read(&mut reader)?;
    reader.finish()?;
    match target.host {
        Host::Ip(ip) => Ok(SocketAddr::new(ip, target.port)),
        Host::Name(_) => Err(Malformed),
    }
}

/// Why a session does not go on.
pub fn encode_refusal(refusal: Refusal) -> Vec<u8> {
    let number = Refusal::ALL.iter().position(|one| *one == refusal);
    vec![number.unwrap_or_default() as u8]
}

/// Reads what [`encode_refusal`] wrote; what nobody knows is something that broke.
pub fn decode_refusal(octets: &[u8]) -> Refusal {
    let number = octets.first().map(|octet| usize::from(*octet));
    let known = number.and_then(|number| Refusal::ALL.get(number));
    known.copied().unwrap_or(Refusal::Broken)
}

/// No address: what stands where none is known.
pub const UNKNOWN_ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// Gateways that a session may cross.
pub const HOPS_MAX: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_wire() {
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
        assert_eq!(read.hops, HOPS_MAX, "no peer asks for more");
        let from = "[2001:db8::1]:5000".parse().unwrap();
        assert_eq!(decode_reached(&encode_reached(from)), Ok(from));
        for refusal in Refusal::ALL {
            assert_eq!(decode_refusal(&encode_refusal(refusal)), refusal);
        }
        assert_eq!(decode_refusal(&[]), Refusal::Broken);
    }
}
