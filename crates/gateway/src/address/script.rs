//! What an element does with packets for the shared address, in the words of nftables.

use std::net::Ipv4Addr;

use crate::address::distribution::{BUCKETS, Distribution, ElementSet};

/// The address, who has it, and where.
#[derive(Clone, Debug)]
pub(super) struct AddressConfig {
    pub(super) address: Ipv4Addr,
    /// The elements' own addresses.
    pub(super) members: Vec<Ipv4Addr>,
    pub(super) me: u8,
    /// Our interface in their network.
    pub(super) device: String,
}

/// How things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// Who takes a part of the connections.
    pub serving: ElementSet,
    /// Our doors are about to be closed: who begins goes to others.
    pub is_closing: bool,
}

/// The names of our tables, by family; the first is always there.
pub(super) const TABLES: [[&str; 2]; 3] = [
    ["arp", "lighthaul_address"],
    ["netdev", "lighthaul_address"],
    ["ip", "lighthaul_address"],
];

/// A transaction that puts nothing in the place of our tables, if there are any.
pub(super) fn clear() -> String {
    let table = |[family, name]: [&str; 2]| {
        format!("table {family} {name}\ndelete table {family} {name}\n")
    };
    TABLES.map(table).concat()
}

/// A transaction that puts rules for this in the place of our tables.
pub(super) fn script(config: &AddressConfig, view: ClusterView) -> String {
    let distribution = Distribution::new(config.members.len() as u8, view.serving);
    let other = |nth: Option<u8>| nth.filter(|nth| *nth != config.me);
    let away = verdicts(|bucket| other(distribution.owner(bucket)).map(|nth| format!("to{nth}")));
    let on = verdicts(|bucket| {
        let next = distribution
            .next(bucket, config.me)
            .map(|nth| format!("to{nth}"));
        let back = other(distribution.owner(bucket)).map(|nth| format!("back{nth}"));
        next.or(back)
    });
    let netdev = away.map_or_else(String::new, |away| netdev(config, view, &away));
    let ip = on.map_or_else(String::new, |on| ip(config, view, &on));
    [clear(), arp(config), netdev, ip].concat()
}

/// Whoever asks for the address is answered by this process, so that nobody is once it is gone. And who asks for others in the
/// name of the address would be taken for the one that answers for it.
fn arp(config: &AddressConfig) -> String {
    let (address, own) = (config.address, config.members[usize::from(config.me)]);
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

/// What arrives for the address, and comes from no element, goes to whom it belongs; whoever answers for the address just now, programs may
/// send it to any element for a while. A fragment has no port to tell by.
fn netdev(config: &AddressConfig, view: ClusterView, away: &str) -> String {
    let AddressConfig {
        address, device, ..
    } = config;
    let ways = chains(config, view, "to", |to| {
        format!("ip dscp set {HANDED_ON} fwd ip to {to} device \"{device}\"")
    });
    format!(
        "table netdev lighthaul_address {{
            {ways}
            chain arriving {{
                type filter hook ingress device \"{device}\" priority -100; policy accept;
                ip daddr {address} ip dscp != {{ {HANDED_ON}, {HANDED_BACK} }} ip frag-off & 0x3fff == 0 {HASH} vmap {{ {away} }}
            }}
        }}\n"
    )
}

/// What belongs to no socket here goes on to the next; before connections are captured. A door is a socket for who begins, and for
/// nobody else. The last one hands back to the first, whose kernel says what is to be said: that there is no such connection, or
/// that there is one after all, which it had no memory to remember (SYN cookies, RFC 4987). What an error of the path is about (RFC 1191)
/// is not to be seen from outside, so that all get it.
fn ip(config: &AddressConfig, view: ClusterView, on: &str) -> String {
    let AddressConfig {
        address, device, ..
    } = config;
    let hand = |mark: &'static str| {
        move |to| format!("ip dscp set {mark} dup to {to} device \"{device}\"\ndrop")
    };
    let ways = chains(config, view, "to", hand(HANDED_ON));
    let back = chains(config, view, "back", hand(HANDED_BACK));
    let others = others(config, view);
    let told: Vec<String> = others
        .map(|(_, to)| format!("dup to {to} device \"{device}\""))
        .collect();
    let told = told.join("\n");
    let who_is_in = if view.is_closing {
        ""
    } else {
        "tcp flags & (syn | ack) != syn"
    };
    format!(
        "table ip lighthaul_address {{
            {ways}{back}
            chain unknown {{
                {HASH} vmap {{ {on} }}
            }}
            chain told {{
                ip dscp set {HANDED_ON}
                {told}
            }}
            chain arriving {{
                type filter hook prerouting priority -155; policy accept;
                iifname != \"{device}\" return
                ip daddr != {address} return
                ip dscp {HANDED_BACK} return
                icmp type destination-unreachable ip dscp != {HANDED_ON} goto told
                ip protocol != tcp return
                {who_is_in} socket wildcard 1 goto unknown
                socket transparent {{ 0, 1 }} accept
                goto unknown
            }}
        }}\n"
    )
}

/// The other elements that serve.
fn others(config: &AddressConfig, view: ClusterView) -> impl Iterator<Item = (u8, Ipv4Addr)> + '_ {
    let others = (0..).zip(config.members.iter().copied());
    others.filter(move |(nth, _)| *nth != config.me && view.serving.contains(*nth))
}

/// A chain for each other element that serves.
fn chains(
    config: &AddressConfig,
    view: ClusterView,
    name: &str,
    rule: impl Fn(Ipv4Addr) -> String,
) -> String {
    let chain = |(nth, to)| format!("chain {name}{nth} {{\n{}\n}}\n", rule(to));
    let chains: Vec<String> = others(config, view).map(chain).collect();
    chains.concat()
}

/// Which chain a bucket goes to; nothing if none goes anywhere.
fn verdicts(to: impl Fn(u16) -> Option<String>) -> Option<String> {
    let verdict = |bucket| to(bucket).map(|chain| format!("{bucket} : goto {chain}"));
    let verdicts: Vec<String> = (0..BUCKETS).filter_map(verdict).collect();
    (!verdicts.is_empty()).then(|| verdicts.join(", "))
}

/// The bucket of a packet; all elements must get the same.
const HASH: &str = "jhash ip saddr . tcp sport mod 256 seed 0x6c68";
/// What marks packets that came by another element, so that they are not distribution again: two of the code points that are for local
/// use (RFC 2474, section 6). A program that marks its own packets so stays with whom it reaches first.
const HANDED_ON: &str = "0x2b";
/// The same, where nobody knew them.
const HANDED_BACK: &str = "0x2f";

#[cfg(test)]
mod tests {
    use super::*;

    fn config(me: u8) -> AddressConfig {
        AddressConfig {
            address: Ipv4Addr::new(10, 0, 0, 100),
            members: (1..4).map(|nth| Ipv4Addr::new(10, 0, 0, nth)).collect(),
            me,
            device: "eth0".to_owned(),
        }
    }

    fn view(these: &[u8]) -> ClusterView {
        let these = these.iter();
        ClusterView {
            serving: these.fold(ElementSet::default(), |all, nth| all.and(*nth)),
            is_closing: false,
        }
    }

    #[test]
    fn all_spread_and_hand_on_but_nobody_to_who_does_not_serve() {
        assert!(HASH.contains(&format!("mod {BUCKETS} ")));
        for me in 0..3 {
            let whole = script(&config(me), view(&[0, 1, 2]));
            assert!(whole.starts_with(&clear()));
            // one for who is told of errors, one for each way on, and one for each way back
            assert_eq!(whole.matches("fwd ip to").count(), 2);
            assert_eq!(whole.matches("dup to").count(), 6);
        }
        let two = script(&config(1), view(&[1, 2]));
        assert!(two.contains("fwd ip to 10.0.0.3") && !two.contains("10.0.0.1 "));
        let alone = script(&config(2), view(&[2]));
        assert!(!alone.contains("fwd") && !alone.contains("dup") && alone.contains("drop"));
        // who leaves has no part, and gives away what still comes
        let leaving = script(&config(2), view(&[0, 1]));
        assert_eq!(leaving.matches(": goto ").count(), 2 * usize::from(BUCKETS));
        let mut closing = view(&[0, 1, 2]);
        assert!(script(&config(0), closing).contains("!= syn socket wildcard"));
        closing.is_closing = true;
        assert!(!script(&config(0), closing).contains("!= syn"));
    }
}
