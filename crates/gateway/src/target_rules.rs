//! Rules for the targets that an egress gateway allows. Without a rule, no target is allowed.
//!
//! [`TargetRules`] is a union of [`TargetRule`]s: hosts by name, domain or network, with ports. A
//! target is checked twice, because a name says nothing about its addresses:
//!
//! 1. [`TargetRules::admits_name`], before the name is resolved
//! 2. [`TargetRules::admits_address`], before each connection
//!
//! Only a rule for the exact address allows a reserved one. Names are compared by whole labels and
//! without case.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use lighthaul_base::prefix::Prefix;
use lighthaul_capture::ports::Ports;
use lighthaul_capture::target::{Host, Target, bracketed};

use crate::reserved::is_reserved;

/// Rules of an egress gateway. Without rules, all targets are refused.
///
/// Programs ask for names or addresses, and this gateway resolves the names. It checks the target before that
/// ([`Self::admits_name`]), and each resolved address ([`Self::admits_address`]) before it connects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRules {
    rules: Vec<TargetRule>,
}

/// Hosts and ports that are allowed, as in `10.0.0.0/8:5001`, `*.example.org:443`, `[fd00::]/8:*`,
/// `host:1000-2000` or `*:*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRule {
    hosts: Hosts,
    ports: Ports,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    /// Every host (`*`).
    All,
    /// Hosts with addresses in the prefix, by name or by address.
    Prefix(Prefix),
    /// The host with the given name, without a dot at the end.
    Name(String),
    /// Hosts with names that end with a dot and the given name.
    Below(String),
}

impl TargetRules {
    /// Creates rules that allow the union of `rules`.
    pub const fn new(rules: Vec<TargetRule>) -> Self {
        Self { rules }
    }

    /// Returns true if at least one address of the target might be allowed, so that it must be resolved.
    pub fn admits_name(&self, target: &Target) -> bool {
        match target.host {
            Host::Ip(address) => {
                self.admits_address(target, (address, target.port).into(), |_| false)
            }
            Host::Name(_) => self.about(target.port).any(|rule| match &rule.hosts {
                Hosts::Prefix(_) => true,
                Hosts::All | Hosts::Name(_) | Hosts::Below(_) => rule.hosts.has(&target.host),
            }),
        }
    }

    /// Returns true if a rule names the target itself, so that it need not be resolved.
    pub fn names(&self, target: &Target) -> bool {
        match target.host {
            Host::Ip(_) => self.admits_name(target),
            Host::Name(_) => self
                .about(target.port)
                .any(|rule| rule.hosts.has(&target.host)),
        }
    }

    /// Returns true if `address` is allowed for a program that asked for `target`.
    ///
    /// A rule for a name or a network never allows an address of this host (`is_local`), nor a loopback, link-local,
    /// multicast or cloud metadata address. Otherwise the owner of a name could point it there (DNS rebinding). Those
    /// addresses need a rule for the exact address, as in `127.0.0.1:80`.
    pub fn admits_address(
        &self,
        target: &Target,
        address: SocketAddr,
        is_local: impl Fn(IpAddr) -> bool,
    ) -> bool {
        let ip = address.ip().to_canonical();
        let matching = || {
            self.about(address.port())
                .filter(|rule| rule.hosts.has(&target.host) || rule.hosts.covers(ip))
        };
        matching().any(|rule| rule.hosts.is_only(ip))
            || matching().next().is_some() && !is_reserved(ip, is_local)
    }

    /// Returns the rules for a port.
    fn about(&self, port: u16) -> impl Iterator<Item = &TargetRule> {
        self.rules
            .iter()
            .filter(move |rule| rule.ports.contains(port))
    }
}

impl Hosts {
    /// Returns true if the rule names `host`.
    fn has(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::All, _) => true,
            (Self::Name(mine), Host::Name(name)) => mine == without_dot(name),
            (Self::Below(mine), Host::Name(name)) => without_dot(name)
                .strip_suffix(mine.as_str())
                .is_some_and(|rest| rest.ends_with('.')),
            (Self::Prefix(_), _) | (_, Host::Ip(_)) => false,
        }
    }

    /// Returns true if the rule is a network with `address`.
    fn covers(&self, address: IpAddr) -> bool {
        matches!(self, Self::Prefix(prefix) if prefix.contains(address))
    }

    /// Returns true if the rule is exactly the address.
    fn is_only(&self, address: IpAddr) -> bool {
        matches!(self, Self::Prefix(prefix) if prefix.is_one() && prefix.contains(address))
    }
}

impl fmt::Display for TargetRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::All => f.write_str("*")?,
            Hosts::Name(name) => f.write_str(name)?,
            Hosts::Below(name) => write!(f, "*.{name}")?,
            Hosts::Prefix(prefix) => match (prefix.address(), prefix.bits()) {
                (IpAddr::V4(address), bits) => write!(f, "{address}/{bits}")?,
                (IpAddr::V6(address), bits) => write!(f, "[{address}]/{bits}")?,
            },
        }
        write!(f, ":{}", self.ports)
    }
}

impl FromStr for TargetRule {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<Self, NotARule> {
        let wrong = || NotARule(text.to_owned());
        let (hosts, ports) = text.rsplit_once(':').ok_or_else(wrong)?;
        Ok(Self {
            hosts: read_hosts(hosts).ok_or_else(wrong)?,
            ports: ports.parse().map_err(|_| wrong())?,
        })
    }
}

/// Fault of the text of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a rule for targets: write hosts and ports as 10.0.0.0/8:5001, [fd00::]/8:*, *.example.org:443 or host:1000-2000"
)]
pub struct NotARule(String);

fn read_hosts(text: &str) -> Option<Hosts> {
    if text == "*" {
        return Some(Hosts::All);
    }
    if let Some(name) = text.strip_prefix("*.") {
        return read_name(name).map(Hosts::Below);
    }
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let plain = match bracketed(address) {
        Some(inner) => inner.contains(':').then_some(inner)?,
        None => (!address.contains(':')).then_some(address)?,
    };
    let prefix = match bits {
        Some(bits) => format!("{plain}/{bits}").parse().ok(),
        None => plain.parse().ok(),
    };
    match (prefix, bits) {
        (Some(prefix), _) => Some(Hosts::Prefix(prefix)),
        (None, None) => read_name(plain).map(Hosts::Name),
        (None, Some(_)) => None,
    }
}

fn read_name(text: &str) -> Option<String> {
    match Host::new(text)? {
        Host::Name(name) => Some(without_dot(&name).to_owned()),
        Host::Ip(_) => None,
    }
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn allowed(rules: &[&str]) -> TargetRules {
        TargetRules::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    fn admits(rules: &[&str], asked: &str, found: &str) -> bool {
        let (allowed, target) = (allowed(rules), target(asked));
        let is_local = |ip: IpAddr| OWN.iter().any(|own| own.parse() == Ok(ip));
        let admits = allowed.admits_address(&target, found.parse().unwrap(), is_local);
        assert!(
            allowed.admits_name(&target) || !admits,
            "an allowed address is resolved: {rules:?} {asked} {found}"
        );
        admits
    }

    #[test]
    fn rules_are_parsed_and_printed() {
        for (text, written) in [
            ("10.1.0.0/8:5001", "10.0.0.0/8:5001"),
            ("10.0.0.1:*", "10.0.0.1/32:*"),
            ("[fd00::]/8:*", "[fd00::]/8:*"),
            ("[::1]:80", "[::1]/128:80"),
            ("*.Example.org.:443", "*.example.org:443"),
            ("host:1000-2000", "host:1000-2000"),
            ("*:*", "*:*"),
        ] {
            assert_eq!(text.parse::<TargetRule>().unwrap().to_string(), written);
        }
        for text in [
            "",
            "*",
            "host",
            "host:",
            "host:0",
            "fd00::/8:*",
            "[10.0.0.1]:1",
            "10.0.0.0/33:1",
            "a*.b:1",
            "*.*:1",
            "*.10.0.0.1:1",
            "127.1:80",
            "host/8:1",
            "[host]:1",
            "**:1",
            "*.:1",
            "10.0.0.0/:1",
        ] {
            assert!(text.parse::<TargetRule>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_target_is_allowed_without_a_rule() {
        assert!(!admits(&[], "example.org:443", "203.0.113.7:443"));
        assert!(!admits(&[], "203.0.113.7:443", "203.0.113.7:443"));
        assert!(!TargetRules::default().admits_name(&target("example.org:443")));
    }

    #[test]
    fn names_are_compared_by_whole_labels_without_case() {
        let rules = ["*.example.org:443", "host:1-10"];
        for (asked, is_admitted) in [
            ("a.example.org:443", true),
            ("A.b.Example.ORG.:443", true),
            ("example.org:443", false),
            ("badexample.org:443", false),
            ("a.example.org:444", false),
            ("a.example.org.evil:443", false),
            ("host:443", false),
            ("host.:10", true),
            ("host.evil:10", false),
            ("203.0.113.7:443", false),
        ] {
            let port = asked.rsplit(':').next().unwrap();
            let found = format!("203.0.113.7:{port}");
            assert_eq!(admits(&rules, asked, &found), is_admitted, "{asked}");
        }
    }

    #[test]
    fn name_cannot_point_to_the_egress_itself() {
        for found in [
            "127.0.0.1:80",
            "127.1.2.3:80",
            "0.0.0.0:80",
            "169.254.169.254:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "[::]:80",
            "[::1]:80",
            "[fe80::1]:80",
            "[ff02::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:0.0.0.0]:80",
        ] {
            let broad = [
                "*:*",
                "*.example.org:*",
                "0.0.0.0/0:*",
                "[::]/0:*",
                "96.0.0.0/3:*",
            ];
            assert!(!admits(&broad, "a.example.org:80", found), "{found}");
            assert!(!admits(&broad, found, found), "{found}");
        }
        assert!(!admits(
            &["127.0.0.0/8:80", "*:*"],
            "a.example.org:80",
            "127.0.0.1:80"
        ));
        assert!(admits(
            &["127.0.0.1:80"],
            "127.0.0.1:80",
            "[::ffff:127.0.0.1]:80"
        ));
        assert!(admits(&["[::1]:80"], "localhost:80", "[::1]:80"));
    }

    #[test]
    fn address_rule_admits_any_name_of_the_address() {
        let rules = ["10.0.0.0/8:5001"];
        assert!(admits(&rules, "db.inside:5001", "10.9.9.9:5001"));
        assert!(!admits(&rules, "db.inside:5001", "11.9.9.9:5001"));
        assert!(!allowed(&rules).admits_name(&target("db.inside:5002")));
    }

    #[test]
    fn rule_names_a_target_without_resolution() {
        let rules = allowed(&["10.0.0.0/8:1-9", "*.a.b:1-9"]);
        for (asked, is_named) in [
            ("10.1.2.3:9", true),
            ("10.1.2.3:10", false),
            ("11.1.2.3:9", false),
            ("x.a.b:9", true),
            ("x.a.b:10", false),
            ("x.b:9", false),
        ] {
            assert_eq!(rules.names(&target(asked)), is_named, "{asked}");
        }
        let looked_up = rules.admits_name(&target("x.b:9"));
        assert!(looked_up, "its address may be in a network of a rule");
    }

    #[test]
    fn own_addresses_need_a_rule_for_the_exact_address() {
        let broad = ["*:*", "10.9.8.0/24:*", "10.9.8.6/31:*", "[fd99::]/127:*"];
        for own in [
            "10.9.8.7:22",
            "[::ffff:10.9.8.7]:22",
            "[fd99::1]:22",
            "[64:ff9b::10.9.8.7]:22",
        ] {
            assert!(!admits(&broad, own, own), "{own}");
            assert!(!admits(&broad, "a.example.org:22", own), "{own}");
        }
        assert!(admits(&broad, "10.9.8.6:22", "10.9.8.6:22"), "a neighbor");
        let exact = ["10.9.8.7:22"];
        assert!(admits(&exact, "a.example.org:22", "10.9.8.7:22"));
        assert!(admits(&exact, "10.9.8.7:22", "[::ffff:10.9.8.7]:22"));
        assert!(!admits(&exact, "10.9.8.7:23", "10.9.8.7:23"));
        assert!(!admits(
            &["10.9.8.7:22", "*:23"],
            "10.9.8.7:23",
            "10.9.8.7:23"
        ));
        let spelled = "[64:ff9b::10.9.8.7]:22";
        assert!(
            !admits(&exact, spelled, spelled),
            "another spelling is another address"
        );
    }

    /// Local addresses in these tests.
    const OWN: [&str; 3] = ["10.9.8.7", "fd99::1", "10.2.3.4"];

    const PREFIXES: [&str; 14] = [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.2.3.4/32",
        "127.0.0.0/8",
        "127.0.0.1/32",
        "126.0.0.0/7",
        "169.254.0.0/16",
        "224.0.0.0/3",
        "[::]/0",
        "[fd00::]/8",
        "[fd99::1]/128",
        "[::1]/128",
        "[fe80::]/9",
    ];
    const NAMES: [&str; 6] = ["*", "*.a.b", "*.b", "a.b", "b", "c.a.b"];
    const HOSTS: [&str; 9] = [
        "a.b",
        "b",
        "c.a.b",
        "ca.b",
        "d.c.a.b.",
        "x",
        "10.1.2.3",
        "127.0.0.1",
        "[::1]",
    ];
    const FOUND: [&str; 17] = [
        "10.1.2.3",
        "10.2.3.4",
        "100.100.100.200",
        "[64:ff9b::10.2.3.4]",
        "[64:ff9b::10.1.2.3]",
        "[fd99::1]",
        "[fd00:ec2::254]",
        "126.0.0.1",
        "127.0.0.1",
        "127.9.9.9",
        "169.254.1.1",
        "225.0.0.1",
        "240.0.0.1",
        "[::1]",
        "[fd12::1]",
        "[fe80::1]",
        "[::ffff:127.0.0.1]",
    ];

    fn digits(address: IpAddr) -> String {
        match address.to_canonical() {
            IpAddr::V4(address) => format!("4{:032b}", u32::from(address)),
            IpAddr::V6(address) => format!("6{:0128b}", u128::from(address)),
        }
    }

    fn is_guarded(address: IpAddr) -> bool {
        let text = address.to_canonical().to_string();
        let inner = text.strip_prefix("64:ff9b::").map(|hex| {
            let groups: Vec<u32> = hex
                .split(':')
                .map(|hex| u32::from_str_radix(hex, 16).unwrap())
                .collect();
            IpAddr::from(std::net::Ipv4Addr::from_bits(groups[0] << 16 | groups[1]))
        });
        OWN.contains(&text.as_str())
            || ["100.100.100.200", "fd00:ec2::254"].contains(&text.as_str())
            || inner.is_some_and(is_guarded)
            || match address.to_canonical() {
                IpAddr::V4(ip) => {
                    ip.is_loopback()
                        || ip.is_link_local()
                        || ip.is_multicast()
                        || ip.is_broadcast()
                        || ip.octets()[0] == 0
                }
                IpAddr::V6(ip) => {
                    ip.is_loopback()
                        || ip.is_unspecified()
                        || ip.is_multicast()
                        || ip.is_unicast_link_local()
                }
            }
    }

    /// Direct implementation of the rules, as they are documented.
    fn reference(rules: &[(usize, u16, u16)], asked: &str, found: SocketAddr) -> bool {
        let asked: Vec<&str> = asked.trim_end_matches('.').rsplit('.').collect();
        rules.iter().any(|(nth, first, last)| {
            if !(*first..=*last).contains(&found.port()) {
                return false;
            }
            if let Some(prefix) = PREFIXES.get(*nth) {
                let (address, bits) = prefix.split_once('/').unwrap();
                let address = digits(address.trim_matches(['[', ']']).parse().unwrap());
                let kept = 1 + bits.parse::<usize>().unwrap();
                return digits(found.ip()).starts_with(&address[..kept])
                    && (kept == address.len() || !is_guarded(found.ip()));
            }
            let name: Vec<&str> = NAMES[nth - PREFIXES.len()].rsplit('.').collect();
            let matches = match name.split_last() {
                Some((&"*", [])) => true,
                Some((&"*", rest)) => asked.len() > rest.len() && asked.starts_with(rest),
                _ => asked == name,
            };
            matches && !is_guarded(found.ip())
        })
    }

    proptest! {
        #[test]
        fn rules_agree_with_the_direct_implementation(
            rules in prop::collection::vec((0..PREFIXES.len() + NAMES.len(), 1_u16..6, 1_u16..6), 0..6),
            host in 0..HOSTS.len(), found in 0..FOUND.len(), port in 1_u16..6,
        ) {
            let rules: Vec<_> = rules.into_iter().map(|(nth, a, b)| (nth, a.min(b), a.max(b))).collect();
            let texts: Vec<String> = rules.iter().map(|(nth, first, last)| {
                let hosts = PREFIXES.get(*nth).map_or_else(|| NAMES[nth - PREFIXES.len()], |prefix| *prefix);
                format!("{hosts}:{first}-{last}")
            }).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let asked = format!("{}:{port}", HOSTS[host]);
            // an address resolves to itself
            let found: SocketAddr = asked.parse().unwrap_or_else(|_| format!("{}:{port}", FOUND[found]).parse().unwrap());
            prop_assert_eq!(admits(&texts, &asked, &found.to_string()), reference(&rules, HOSTS[host], found));
        }
    }
}
