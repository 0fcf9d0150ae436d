//! Rules for captured connections in the language of nftables.
//!
//! `script` returns one transaction for `nft -f` that replaces the table `inet lighthaul`. So the
//! old rules hold until the new ones do. It runs no program. The table has two chains:
//!
//! - `prerouting` passes connections that arrive from other hosts to a listener (tproxy and a mark)
//! - `output` redirects connections of selected users of this host
//!
//! Neither captures connections to this host itself. Prefixes and ports are merged, since nft
//! refuses overlaps.

use std::fmt::Write;

use crate::ports::Ports;
use crate::settings::Transparent;
use lighthaul_base::prefix::Prefix;

/// Address family and port of a listener for redirected connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redirect {
    pub(super) is_v6: bool,
    pub(super) port: u16,
}

/// Transaction that removes the table, if it exists.
pub(super) const CLEAR: &str = "table inet lighthaul\ndelete table inet lighthaul\n";

/// Returns a transaction that replaces the table by the rules for the captured connections.
pub(super) fn script(capture: &Transparent, redirects: &[Redirect]) -> String {
    let mut chains = String::new();
    if capture.arriving {
        chains.push_str(
            "\tchain prerouting {\n\t\ttype filter hook prerouting priority -150; policy accept;\n",
        );
        // connections to this host itself are not redirected
        chains.push_str("\t\tfib daddr type local return\n");
        let device = capture.device.as_ref();
        let from = device.map_or_else(String::new, |device| format!("iifname \"{device}\" "));
        let to = |redirect: &Redirect| {
            let (family, loopback) = if redirect.is_v6 {
                ("ip6", "[::1]")
            } else {
                ("ip", "127.0.0.1")
            };
            let (port, mark) = (redirect.port, capture.mark);
            format!("tproxy {family} to {loopback}:{port} meta mark set {mark:#x} accept")
        };
        put_rules(&mut chains, capture, redirects, &from, to);
    }
    if !capture.users.is_empty() {
        chains
            .push_str("\tchain output {\n\t\ttype nat hook output priority -100; policy accept;\n");
        chains.push_str("\t\tfib daddr type local return\n");
        let from = format!("meta skuid {} ", set(&capture.users));
        put_rules(&mut chains, capture, redirects, &from, |redirect| {
            format!("redirect to :{}", redirect.port)
        });
    }
    format!("{CLEAR}table inet lighthaul {{\n{chains}}}\n")
}

/// Writes a rule for each family, and the end of the chain.
fn put_rules(
    chains: &mut String,
    capture: &Transparent,
    redirects: &[Redirect],
    from: &str,
    to: impl Fn(&Redirect) -> String,
) {
    let ports = match merged(&capture.ports).as_slice() {
        [] | [Ports::ALL] => "meta l4proto tcp".to_owned(),
        ports => format!("tcp dport {}", set(ports)),
    };
    for redirect in redirects {
        if let Some(targets) = targets(&capture.prefixes, redirect.is_v6) {
            // writing to a string cannot fail
            let _ = writeln!(chains, "\t\t{from}{targets} {ports} {}", to(redirect));
        }
    }
    chains.push_str("\t}\n");
}

/// Returns the match for captured destinations; empty if the family has none.
fn targets(prefixes: &[Prefix], is_v6: bool) -> Option<String> {
    let (family, all) = if is_v6 {
        ("ip6", "meta nfproto ipv6")
    } else {
        ("ip", "meta nfproto ipv4")
    };
    let own: Vec<&Prefix> = prefixes
        .iter()
        .filter(|prefix| prefix.address().is_ipv6() == is_v6)
        .collect();
    if prefixes.is_empty() || own.iter().any(|prefix| prefix.is_all()) {
        return Some(all.to_owned());
    }
    // nft refuses overlapping intervals
    let mut kept: Vec<&Prefix> = own
        .iter()
        .filter(|inner| {
            !own.iter()
                .any(|outer| outer.bits() < inner.bits() && outer.covers(***inner))
        })
        .copied()
        .collect();
    kept.sort();
    kept.dedup();
    (!kept.is_empty()).then(|| format!("{family} daddr {}", set(&kept)))
}

/// Returns the same ports without overlaps.
fn merged(ports: &[Ports]) -> Vec<Ports> {
    let mut ports = ports.to_vec();
    ports.sort();
    let mut merged: Vec<Ports> = Vec::new();
    for next in ports {
        match merged.last_mut() {
            Some(last) if next.first() <= last.last().saturating_add(1) => {
                let till = last.last().max(next.last());
                *last = Ports::new(last.first(), till).unwrap_or(next);
            }
            _ => merged.push(next),
        }
    }
    merged
}

fn set(members: &[impl ToString]) -> String {
    let members: Vec<String> = members.iter().map(ToString::to_string).collect();
    format!("{{ {} }}", members.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: [Redirect; 2] = [
        Redirect {
            is_v6: false,
            port: 4000,
        },
        Redirect {
            is_v6: true,
            port: 6000,
        },
    ];

    fn lines(capture: &Transparent) -> Vec<String> {
        let script = script(capture, &WAYS);
        assert!(script.starts_with(CLEAR));
        let lines = script.lines().map(str::trim);
        let is_rule = |line: &&str| line.contains("tproxy") || line.contains("redirect");
        lines.filter(is_rule).map(str::to_owned).collect()
    }

    #[test]
    fn default_settings_capture_all_arriving_connections() {
        let expected = [
            "meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:4000 meta mark set 0x6c68 accept",
            "meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:6000 meta mark set 0x6c68 accept",
        ];
        assert_eq!(lines(&Transparent::default()), expected);
    }

    #[test]
    fn targets_ports_and_devices_limit_the_capture() {
        let capture = Transparent {
            device: Some("eth1".to_owned()),
            prefixes: ["10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8"]
                .map(|text| text.parse().unwrap())
                .to_vec(),
            ports: ["20-30", "443", "10-25", "31"]
                .map(|text| text.parse().unwrap())
                .to_vec(),
            ..Transparent::default()
        };
        let expected = [
            "iifname \"eth1\" ip daddr { 10.0.0.0/8 } tcp dport { 10-31, 443 } \
             tproxy ip to 127.0.0.1:4000 meta mark set 0x6c68 accept",
        ];
        assert_eq!(lines(&capture), expected);
    }

    #[test]
    fn outgoing_connections_of_some_users_are_captured() {
        let capture = Transparent {
            arriving: false,
            users: vec![1001, 1002],
            prefixes: vec!["::/0".parse().unwrap()],
            ..Transparent::default()
        };
        let expected =
            ["meta skuid { 1001, 1002 } meta nfproto ipv6 meta l4proto tcp redirect to :6000"];
        assert_eq!(lines(&capture), expected);
    }
}
