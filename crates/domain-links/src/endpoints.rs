//! Keys and numbers that a transport needs, and the receiver of its messages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_capture::target::Target;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_stargate::{DomainId, Message};

use crate::link_fault::LinkFault;

/// Receiver of messages from authenticated neighbors. It returns false once it takes no more.
pub type Deliver = Arc<dyn Fn(DomainId, Message) -> bool + Send + Sync>;

/// Receiver of the message of a thread of the transport that has ended by a panic.
pub type Panicked = Arc<dyn Fn(String) + Send + Sync>;

/// Neighbor of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Name, for people.
    pub name: String,
    /// Address to connect to; if absent, only the neighbor connects.
    pub address: Option<Target>,
    /// Fingerprint of the neighbor's key.
    pub key: Fingerprint,
    /// End of the key, in wall-clock time.
    pub expires: Instant,
}

/// Keys and numbers of this domain and of its neighbors.
#[derive(Clone)]
pub struct Identification {
    /// Number of this domain.
    pub me: DomainId,
    /// Private key of this domain.
    pub identity: Identity,
    /// Fingerprint of that key.
    pub key: Fingerprint,
    /// Neighbors.
    pub neighbors: BTreeMap<DomainId, Neighbor>,
    /// Largest difference of the clock of a neighbor, with the delay of its message.
    pub clock_tolerance: Duration,
}

impl Identification {
    /// Returns the neighbor that has a key at `now`, in wall-clock time. `address` is that of the peer, for faults.
    pub(crate) fn neighbor_of(
        &self,
        key: Fingerprint,
        address: &str,
        now: Instant,
    ) -> Result<DomainId, LinkFault> {
        let mut neighbors = self.neighbors.iter();
        let found = neighbors.find(|(_, neighbor)| neighbor.key.is(key));
        let Some((id, neighbor)) = found else {
            let address = address.to_owned();
            return Err(LinkFault::UnknownKey { address, key });
        };
        if now >= neighbor.expires {
            return Err(LinkFault::Expired { domain: id.0 });
        }
        Ok(*id)
    }
}

impl fmt::Debug for Identification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identification")
            .field("me", &self.me)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_unknown_or_expired_are_refused() {
        let identity = Identity::generate();
        let key = Fingerprint::of_public(&identity.public());
        let neighbor = |octet, expires| Neighbor {
            name: "n".to_owned(),
            address: None,
            key: Fingerprint::from_octets([octet; 32]),
            expires: Instant::from_nanos(expires),
        };
        let neighbors = [
            (DomainId(2), neighbor(2, 50)),
            (DomainId(3), neighbor(3, 90)),
        ]
        .into();
        let me = DomainId(1);
        let known = Identification {
            me,
            identity,
            key,
            neighbors,
            clock_tolerance: Duration::from_secs(3),
        };
        let of = |octet, now| {
            let key = Fingerprint::from_octets([octet; 32]);
            known.neighbor_of(key, "host:1", Instant::from_nanos(now))
        };
        assert_eq!(of(2, 49), Ok(DomainId(2)));
        assert_eq!(of(3, 50), Ok(DomainId(3)));
        assert_eq!(of(2, 50), Err(LinkFault::Expired { domain: 2 }));
        let text = of(4, 0).unwrap_err().to_string();
        assert!(
            text.contains("host:1") && text.contains("set key"),
            "{text}"
        );
    }
}
