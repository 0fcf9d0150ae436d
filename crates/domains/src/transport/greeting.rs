//! First frame of each side: a mark, the version of messages, and the numbers of both domains.
//!
//! A pinned key names its domain already. The greeting finds a configuration that gives a key or a domain another
//! number: the receiver compares it with the octets that it expects.

use lighthaul_stargate::DomainId;
use lighthaul_stargate::wire::VERSION;

/// Returns the greeting of a domain to its neighbor.
pub(super) fn greeting(from: DomainId, to: DomainId) -> Vec<u8> {
    let mut octets = MARK.to_vec();
    octets.push(VERSION);
    octets.extend(from.0.to_be_bytes());
    octets.extend(to.0.to_be_bytes());
    octets
}

const MARK: &[u8] = b"lighthaul domains ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greeting_differs_for_each_pair_of_domains() {
        let (one, two) = (DomainId(1), DomainId(2));
        assert_eq!(greeting(one, two), greeting(one, two));
        for other in [(two, one), (one, one), (one, DomainId(3))] {
            assert_ne!(greeting(one, two), greeting(other.0, other.1));
        }
    }
}
