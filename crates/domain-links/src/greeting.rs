//! First frame of each side: a mark, the version of messages, and the numbers of both domains.
//!
//! A pinned key names its domain already. The greeting finds a configuration that gives a key or a domain another
//! number, and software with another version of the messages. The mark and the version stay in their places in all
//! versions, so that a domain can name both.

use lighthaul_stargate::DomainId;
use lighthaul_stargate::wire::VERSION;

use crate::link_fault::LinkFault;

/// Returns the greeting of a domain to its neighbor.
pub(crate) fn greeting(from: DomainId, to: DomainId) -> Vec<u8> {
    let mut octets = MARK.to_vec();
    octets.push(VERSION);
    octets.extend(from.0.to_be_bytes());
    octets.extend(to.0.to_be_bytes());
    octets
}

/// Refuses a greeting to `me` that does not come from `neighbor`, and names its version if that differs.
pub(crate) fn check(octets: &[u8], neighbor: DomainId, me: DomainId) -> Result<(), LinkFault> {
    if octets == greeting(neighbor, me) {
        return Ok(());
    }
    let (domain, me) = (neighbor.0, me.0);
    let version = octets.strip_prefix(MARK).and_then(<[u8]>::first);
    Err(match version {
        Some(theirs) if *theirs != VERSION => LinkFault::Version {
            domain,
            me,
            theirs: *theirs,
            ours: VERSION,
        },
        Some(_) | None => LinkFault::Greeting { domain, me },
    })
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

    #[test]
    fn greeting_of_another_version_differs_from_a_wrong_greeting() {
        let (one, two) = (DomainId(1), DomainId(2));
        assert_eq!(check(&greeting(two, one), two, one), Ok(()));
        let (domain, me) = (2, 1);
        let wrong = Err(LinkFault::Greeting { domain, me });
        for octets in [
            greeting(two, DomainId(3)),
            greeting(one, one),
            MARK.to_vec(),
            vec![],
        ] {
            assert_eq!(check(&octets, two, one), wrong, "{octets:?}");
        }
        for theirs in [VERSION - 1, VERSION + 1] {
            let mut octets = greeting(two, one);
            octets[MARK.len()] = theirs;
            // later versions may say more or less after it
            for len in [MARK.len() + 1, octets.len()] {
                let why = check(&octets[..len], two, one).unwrap_err();
                let ours = VERSION;
                let expected = LinkFault::Version {
                    domain,
                    me,
                    theirs,
                    ours,
                };
                assert_eq!(why, expected);
                let older = if theirs < ours {
                    "domain 2"
                } else {
                    "domain 1"
                };
                let remedy = format!("; install a newer lighthaul in {older}");
                assert!(why.to_string().ends_with(&remedy), "{why}");
            }
        }
    }
}
