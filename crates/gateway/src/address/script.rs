//! What an element does with packets for the shared address, in the words of nftables.

use std::net::Ipv4Addr;

use crate::address::spread::{BUCKETS, Elements, Spread};

/// The address, who has it, and where.
#[derive(Clone, Debug)]
pub(super) struct Cast {
    pub(super) address: Ipv4Addr,
    /// The elements' own addresses.
    pub(super) members: Vec<Ipv4Addr>,
    pub(super) me: u8,
    /// Our interface in their network.
    pub(super) device: String,
}

/// A transaction that puts nothing in the place of our tables, if there are any.
pub(super) fn clear() -> String {
    let table = |family| {
        format!("table {family} lighthaul_address\ndelete table {family} lighthaul_address\n")
    };
    ["arp", "netdev", "ip"].map(table).concat()
}

/// A transaction that puts rules for this in the place of our tables.
pub(super) fn script(cast: &Cast, living: Elements) -> String {
    let spread = Spread::new(cast.members.len() as u8, living);
    let answers = living.first() == Some(cast.me);
    let owner = |bucket| spread.owner(bucket).filter(|nth| *nth != cast.me);
    let away = answers.then(|| verdicts(owner)).flatten();
    let on = verdicts(|bucket| spread.next(bucket, cast.me));
    let arp = arp(cast);
    let netdev = away.map_or_else(String::new, |away| netdev(cast, living, &away));
    let ip = on.map_or_else(String::new, |on| ip(cast, living, &on));
    [clear(), arp, netdev, ip].concat()
}

/// Whoever asks for the address is answered by this process, so that nobody is once it is gone. And who asks for others in the
/// name of the address would be taken for the one that answers for it.
fn arp(cast: &Cast) -> String {
    let (address, own) = (cast.address, cast.members[usize::from(cast.me)]);
    format!(
        "table arp lighthaul_address {{
            chain asked {{
                type filter hook input priority 0; policy accept;
                arp operation request arp daddr ip {address} drop
            }}
            chain asking {{
                type filter hook output priority 0; policy accept;
                arp operation request arp saddr ip {address} arp saddr ip set {own}
            }}
        }}\n"
    )
}

/// What arrives for the address from elsewhere goes to who takes it, whole.
fn netdev(cast: &Cast, living: Elements, away: &str) -> String {
    let Cast {
        address, device, ..
    } = cast;
    let ways = ways(cast, living, |to| {
        format!("fwd ip to {to} device \"{device}\"")
    });
    format!(
        "table netdev lighthaul_address {{
            {ways}
            chain arriving {{
                type filter hook ingress device \"{device}\" priority -100; policy accept;
                ip daddr {address} ip dscp != {HANDED_ON} {HASH} vmap {{ {away} }}
            }}
        }}\n"
    )
}

/// What belongs to no socket here goes on to the next; before connections are captured. A door is a socket for who begins, and
/// for nobody else.
fn ip(cast: &Cast, living: Elements, on: &str) -> String {
    let Cast {
        address, device, ..
    } = cast;
    let ways = ways(cast, living, |to| {
        format!("ip dscp set {HANDED_ON} dup to {to} device \"{device}\"\ndrop")
    });
    format!(
        "table ip lighthaul_address {{
            {ways}
            chain unknown {{
                {HASH} vmap {{ {on} }}
            }}
            chain arriving {{
                type filter hook prerouting priority -155; policy accept;
                iifname != \"{device}\" return
                ip daddr != {address} return
                ip protocol != tcp return
                tcp flags & (syn | ack) != syn socket wildcard 1 goto unknown
                socket transparent {{ 0, 1 }} accept
                goto unknown
            }}
        }}\n"
    )
}

/// A chain for each other element that lives.
fn ways(cast: &Cast, living: Elements, rule: impl Fn(Ipv4Addr) -> String) -> String {
    let others = (0..).zip(&cast.members);
    let others = others.filter(|(nth, _)| *nth != cast.me && living.contains(*nth));
    let chain = |(nth, to): (u8, &Ipv4Addr)| format!("chain to{nth} {{\n{}\n}}\n", rule(*to));
    others.map(chain).collect()
}

/// Which chain a bucket goes to; nothing if none goes anywhere.
fn verdicts(to: impl Fn(u16) -> Option<u8>) -> Option<String> {
    let verdict = |bucket| to(bucket).map(|nth| format!("{bucket} : goto to{nth}"));
    let verdicts: Vec<String> = (0..BUCKETS).filter_map(verdict).collect();
    (!verdicts.is_empty()).then(|| verdicts.join(", "))
}

/// The bucket of a packet; all elements must get the same.
const HASH: &str = "jhash ip saddr . tcp sport mod 256 seed 0x6c68";
/// What marks packets that came by another element, so that who answers for the address does not spread them again: one of the code
/// points that are for local use (RFC 2474, section 6).
const HANDED_ON: &str = "0x2b";

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(me: u8) -> Cast {
        Cast {
            address: Ipv4Addr::new(10, 0, 0, 100),
            members: (1..4).map(|nth| Ipv4Addr::new(10, 0, 0, nth)).collect(),
            me,
            device: "eth0".to_owned(),
        }
    }

    fn elements(these: &[u8]) -> Elements {
        these
            .iter()
            .fold(Elements::default(), |all, nth| all.and(*nth))
    }

    #[test]
    fn the_first_that_lives_spreads_and_all_hand_on_but_nobody_to_the_dead() {
        assert!(HASH.contains(&format!("mod {BUCKETS} ")));
        let whole = script(&cast(0), elements(&[0, 1, 2]));
        assert!(whole.starts_with(&clear()));
        assert_eq!(whole.matches("fwd ip to").count(), 2);
        assert_eq!(whole.matches("dup to").count(), 2);
        let second = script(&cast(1), elements(&[0, 1, 2]));
        assert!(!second.contains("fwd") && second.contains("dup to 10.0.0.3"));
        let first = script(&cast(1), elements(&[1, 2]));
        assert!(first.contains("fwd ip to 10.0.0.3") && !first.contains("10.0.0.1\n"));
        let alone = script(&cast(2), elements(&[2]));
        assert!(!alone.contains("fwd") && !alone.contains("dup") && alone.contains("drop"));
    }
}
