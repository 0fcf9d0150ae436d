//! Rules for packets of the shared address, in the language of nftables.
//!
//! `script` returns one transaction that replaces three tables for a [`ClusterView`]. A packet
//! belongs to the bucket of its source address and port, and `Distribution` assigns buckets to
//! elements:
//!
//! ```text
//! arp     only the gateway answers requests for the shared address, not the kernel
//! netdev  arriving packet -> element of its bucket (mark: handed on)
//! ip      packet without a socket here -> next element ... -> first one (handed back)
//! ```

use std::net::Ipv4Addr;

use crate::address::distribution::{BUCKETS, Distribution, ElementSet};

/// Shared address and its elements.
#[derive(Clone, Debug)]
pub(super) struct AddressConfig {
    pub(super) address: Ipv4Addr,
    /// Own addresses of the elements.
    pub(super) members: Vec<Ipv4Addr>,
    pub(super) me: u8,
    /// Interface of this element in the network of the cluster.
    pub(super) device: String,
}

/// State of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// Elements that take connections.
    pub serving: ElementSet,
    /// True if the listeners of this element close soon, so that new connections go to other elements.
    pub is_closing: bool,
}

/// Tables by family; the first one always exists.
pub(super) const TABLES: [[&str; 2]; 3] = [
    ["arp", "lighthaul_address"],
    ["netdev", "lighthaul_address"],
    ["ip", "lighthaul_address"],
];

/// Returns a transaction that removes the tables, if they exist.
pub(super) fn clear() -> String {
    let table = |[family, name]: [&str; 2]| {
        format!("table {family} {name}\ndelete table {family} {name}\n")
    };
    TABLES.map(table).concat()
}

/// Returns a transaction that replaces the tables by the rules for the present state.
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

/// Returns the ARP rules. Requests for the shared address are answered by this process only, and not after its end.
/// Requests of this host carry its own address as sender, since receivers would learn the shared one from them.
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

/// Returns the rules that forward arriving packets to the element of their bucket. Packets of other elements are not
/// forwarded again. Any element may receive packets for a while after another element begins to answer. Fragments have
/// no ports, and are left alone.
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

/// Returns the rules that pass on packets without a socket, before connections are captured. A listener counts as a
/// socket for new connections only. The last element passes packets back to the first, whose kernel answers them: by
/// a reset, or by accepting a SYN cookie (RFC 4987). The connection of an ICMP error (RFC 1191) is not visible to these
/// rules, so all elements receive it.
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
    let copies: Vec<String> = others
        .map(|(_, to)| format!("dup to {to} device \"{device}\""))
        .collect();
    let copies = copies.join("\n");
    let connection_state = if view.is_closing {
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
            chain errors {{
                ip dscp set {HANDED_ON}
                {copies}
            }}
            chain arriving {{
                type filter hook prerouting priority -155; policy accept;
                iifname != \"{device}\" return
                ip daddr != {address} return
                ip dscp {HANDED_BACK} return
                icmp type destination-unreachable ip dscp != {HANDED_ON} goto errors
                ip protocol != tcp return
                {connection_state} socket wildcard 1 goto unknown
                socket transparent {{ 0, 1 }} accept
                goto unknown
            }}
        }}\n"
    )
}

/// Returns the other elements that serve.
fn others(config: &AddressConfig, view: ClusterView) -> impl Iterator<Item = (u8, Ipv4Addr)> + '_ {
    let others = (0..).zip(config.members.iter().copied());
    others.filter(move |(nth, _)| *nth != config.me && view.serving.contains(*nth))
}

/// Returns a chain for each other element that serves.
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

/// Returns the map from buckets to chains; empty if no bucket has a chain.
fn verdicts(to: impl Fn(u16) -> Option<String>) -> Option<String> {
    let verdict = |bucket| to(bucket).map(|chain| format!("{bucket} : goto {chain}"));
    let verdicts: Vec<String> = (0..BUCKETS).filter_map(verdict).collect();
    (!verdicts.is_empty()).then(|| verdicts.join(", "))
}

/// Bucket of a packet; must be equal at all elements.
const HASH: &str = "jhash ip saddr . tcp sport mod 256 seed 0x6c68";
/// Mark of packets that another element forwarded, so that they are not distributed again. It is a code point for local
/// use (RFC 2474, section 6). Packets of a program with this mark stay at the element that receives them.
const HANDED_ON: &str = "0x2b";
/// Mark of packets that were passed back, also a code point for local use.
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
    fn elements_forward_packets_to_serving_elements_only() {
        assert!(HASH.contains(&format!("mod {BUCKETS} ")));
        for me in 0..3 {
            let whole = script(&config(me), view(&[0, 1, 2]));
            assert!(whole.starts_with(&clear()));
            // one for the receivers of errors, one for each element forward, and one for each back
            assert_eq!(whole.matches("fwd ip to").count(), 2);
            assert_eq!(whole.matches("dup to").count(), 6);
        }
        let two = script(&config(1), view(&[1, 2]));
        assert!(two.contains("fwd ip to 10.0.0.3") && !two.contains("10.0.0.1 "));
        let alone = script(&config(2), view(&[2]));
        assert!(!alone.contains("fwd") && !alone.contains("dup") && alone.contains("drop"));
        // a leaving element has no share, and forwards its packets
        let leaving = script(&config(2), view(&[0, 1]));
        assert_eq!(leaving.matches(": goto ").count(), 2 * usize::from(BUCKETS));
        let mut closing = view(&[0, 1, 2]);
        assert!(script(&config(0), closing).contains("!= syn socket wildcard"));
        closing.is_closing = true;
        assert!(!script(&config(0), closing).contains("!= syn"));
    }
}
