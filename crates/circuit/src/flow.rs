//! Flows: sets of packets by protocol, target and ports.
//!
//! A [`Flow`] says which packets a circuit carries. A part that is absent matches everything. The
//! books compare flows with [`Flow::overlaps`], so that no two circuits at one interface claim a
//! packet at one time. Ports are destination ports. As JSON a flow is its text. Text that does not
//! parse is [`NotAFlow`]. Filters of devices are made from flows elsewhere.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use lighthaul_base::prefix::Prefix;
use lighthaul_base::unsigned;
use serde::{Deserialize, Serialize};

/// Set of packets: all, or packets of a protocol, to an address, to a range of ports.
///
/// The text format is `udp 10.0.0.2/32 5000-5010`, in which each part is optional, or `all`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Flow {
    protocol: Option<Protocol>,
    target: Option<Prefix>,
    ports: Option<(u16, u16)>,
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
}

impl Flow {
    /// All packets.
    pub const ALL: Self = Self {
        protocol: None,
        target: None,
        ports: None,
    };

    /// Creates the flow of packets of `protocol`, to `target`, with a destination port in the range `ports`. Ports
    /// without a protocol are those of TCP and UDP.
    pub fn new(
        protocol: Option<Protocol>,
        target: Option<Prefix>,
        ports: Option<(u16, u16)>,
    ) -> Result<Self, NotAFlow> {
        if ports.is_some_and(|(first, last)| first == 0 || first > last) {
            return Err(NotAFlow);
        }
        Ok(Self {
            protocol,
            target,
            ports,
        })
    }

    /// Returns the protocol; `None` means any.
    pub const fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Returns the target; `None` means any.
    pub const fn target(&self) -> Option<Prefix> {
        self.target
    }

    /// Returns the first and the last destination port; `None` means any.
    pub const fn ports(&self) -> Option<(u16, u16)> {
        self.ports
    }

    /// Returns true if some packet could belong to both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let protocol = match (self.protocol, other.protocol) {
            (Some(one), Some(other)) => one == other,
            (None, _) | (_, None) => true,
        };
        let target = match (self.target, other.target) {
            (Some(one), Some(other)) => one.covers(other) || other.covers(one),
            (None, _) | (_, None) => true,
        };
        let ports = match (self.ports, other.ports) {
            (Some(one), Some(other)) => one.0 <= other.1 && other.0 <= one.1,
            (None, _) | (_, None) => true,
        };
        protocol && target && ports
    }

    /// Returns the breadth of the flow. If a packet belongs to two flows, the one with less breadth carries it.
    pub(crate) fn breadth(&self) -> u16 {
        let above = match (self.ports, self.protocol) {
            (Some(_), _) => 0,
            (None, Some(_)) => 1,
            (None, None) => 2,
        };
        let bits = self.target.map_or(0, |target| match target.address() {
            IpAddr::V4(_) => 97 + u16::from(target.bits()),
            IpAddr::V6(_) => 1 + u16::from(target.bits()),
        });
        3 * (BITS_MAX - bits) + above
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = self.protocol.map(|protocol| match protocol {
            Protocol::Tcp => "tcp".to_owned(),
            Protocol::Udp => "udp".to_owned(),
        });
        let target = self.target.map(|target| target.to_string());
        let ports = self.ports.map(|(first, last)| format!("{first}-{last}"));
        let parts: Vec<String> = [protocol, target, ports].into_iter().flatten().collect();
        if parts.is_empty() {
            write!(f, "all")
        } else {
            write!(f, "{}", parts.join(" "))
        }
    }
}

impl FromStr for Flow {
    type Err = NotAFlow;

    fn from_str(text: &str) -> Result<Self, NotAFlow> {
        let mut words = text.split_whitespace().peekable();
        if words.next_if_eq(&"all").is_some() {
            return words.next().map_or(Ok(Self::ALL), |_| Err(NotAFlow));
        }
        words.peek().ok_or(NotAFlow)?;
        let protocol = match words.peek() {
            Some(&"tcp") => Some(Protocol::Tcp),
            Some(&"udp") => Some(Protocol::Udp),
            _ => None,
        };
        if protocol.is_some() {
            words.next();
        }
        let target = words.next_if(|word| word.contains(['.', ':']));
        let target = target.map(str::parse).transpose().map_err(|_| NotAFlow)?;
        let ports = words.next().map(ports).transpose()?;
        if words.next().is_some() {
            return Err(NotAFlow);
        }
        Self::new(protocol, target, ports)
    }
}

impl TryFrom<String> for Flow {
    type Error = NotAFlow;

    fn try_from(text: String) -> Result<Self, NotAFlow> {
        text.parse()
    }
}

impl From<Flow> for String {
    fn from(flow: Flow) -> Self {
        flow.to_string()
    }
}

fn ports(text: &str) -> Result<(u16, u16), NotAFlow> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let both = unsigned::number(first).zip(unsigned::number(last));
    both.ok_or(NotAFlow)
}

/// Fault of the text of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a flow is `all`, or a protocol (tcp, udp), a target address and ports, as in `udp 10.0.0.2/32 5000-5010`; \
     each part is optional"
)]
pub struct NotAFlow;

/// Length of an IPv6 address in bits, and one for the address family.
const BITS_MAX: u16 = 129;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns any flow.
    pub(crate) fn flows() -> impl Strategy<Value = Flow> {
        let protocol = prop::option::of(prop::sample::select(vec![Protocol::Tcp, Protocol::Udp]));
        let v4 = (any::<u32>(), 0_u8..=32).prop_map(|(bits, len)| (IpAddr::V4(bits.into()), len));
        let v6 = (any::<u128>(), 0_u8..=128).prop_map(|(bits, len)| (IpAddr::V6(bits.into()), len));
        let target =
            prop_oneof![v4, v6].prop_map(|(address, len)| Prefix::new(address, len).unwrap());
        let ports = (1_u16.., 1_u16..).prop_map(|(a, b)| (a.min(b), a.max(b)));
        (protocol, prop::option::of(target), prop::option::of(ports))
            .prop_map(|(protocol, target, ports)| Flow::new(protocol, target, ports).unwrap())
    }

    /// Returns flows over few addresses and ports, so that a test can try all packets.
    fn small_flows() -> impl Strategy<Value = Flow> {
        let protocol = prop::option::of(prop::sample::select(vec![Protocol::Tcp, Protocol::Udp]));
        let target = (0_u32..8, 29_u8..=32)
            .prop_map(|(bits, len)| Prefix::new(IpAddr::V4(bits.into()), len).unwrap());
        let ports = (1_u16..5, 1_u16..5).prop_map(|(a, b)| (a.min(b), a.max(b)));
        (protocol, prop::option::of(target), prop::option::of(ports))
            .prop_map(|(protocol, target, ports)| Flow::new(protocol, target, ports).unwrap())
    }

    fn packets() -> impl Iterator<Item = (Protocol, u32, u16)> {
        let protocols = [Protocol::Tcp, Protocol::Udp].into_iter();
        protocols.flat_map(|protocol| {
            (0..8).flat_map(move |address| (1..5).map(move |port| (protocol, address, port)))
        })
    }

    fn has(flow: &Flow, (protocol, address, port): (Protocol, u32, u16)) -> bool {
        let address = Prefix::new(IpAddr::V4(address.into()), 32).unwrap();
        flow.protocol.is_none_or(|one| one == protocol)
            && flow.target.is_none_or(|target| target.covers(address))
            && flow
                .ports
                .is_none_or(|(first, last)| (first..=last).contains(&port))
    }

    #[test]
    fn texts_of_flows_are_parsed() {
        for (text, means) in [
            ("all", "all"),
            ("tcp", "tcp"),
            ("udp 10.0.0.2 5000", "udp 10.0.0.2/32 5000-5000"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            (" 2001:db8::1/64  80-90 ", "2001:db8::/64 80-90"),
        ] {
            assert_eq!(text.parse::<Flow>().unwrap().to_string(), means);
        }
        for text in [
            "",
            "all udp",
            "icmp",
            "udp 10.0.0.0/33",
            "udp 0",
            "udp 9-8",
            "udp 70000",
            "udp 1 2",
            "udp +80",
            "udp 80-+90",
            "1-2-3",
            "10.0.0/8",
        ] {
            assert_eq!(text.parse::<Flow>(), Err(NotAFlow), "{text}");
        }
    }

    #[test]
    fn flows_overlap_if_a_packet_can_belong_to_both() {
        for (one, other, do_overlap) in [
            ("all", "udp 10.0.0.2 5000", true),
            ("udp", "tcp", false),
            ("udp 10.0.0.2 5000", "10.0.0.0/8", true),
            ("10.0.0.0/8", "10.0.0.0/9", true),
            ("10.0.0.0/9", "10.128.0.0/9", false),
            ("10.0.0.2", "10.0.0.3", false),
            ("0.0.0.0/0", "::/0", false),
            ("udp ::/0", "2001:db8::1", true),
            ("udp 5000-5010", "5010-5020", true),
            ("udp 5000-5009", "5010-5020", false),
            ("10.0.0.2", "udp 80", true),
        ] {
            let [one, other]: [Flow; 2] = [one, other].map(|text| text.parse().unwrap());
            assert_eq!(one.overlaps(&other), do_overlap, "{one} and {other}");
            assert_eq!(other.overlaps(&one), do_overlap, "{other} and {one}");
        }
    }

    #[test]
    fn prefix_covers_the_prefixes_with_its_bits() {
        let contains = |one: &str, other: &str| {
            let [one, other]: [Prefix; 2] = [one, other].map(|text| text.parse().unwrap());
            one.covers(other)
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(contains("10.0.0.1", "10.0.0.1"));
        assert!(contains("0.0.0.0/0", "10.0.0.0/8"));
        assert!(!contains("10.0.0.0/8", "0.0.0.0/0"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0/8"));
        assert!(!contains("0.0.0.0/0", "::1"));
        assert!(!contains("::/0", "10.0.0.1"));
        assert!(contains("2001:db8::/32", "2001:db8:1::/48"));
    }

    #[test]
    fn narrower_flows_have_a_smaller_breadth() {
        let order = [
            "10.0.0.2 5000",
            "10.0.0.2",
            "10.0.0.0/9",
            "10.0.0.0/8 80",
            "tcp 10.0.0.0/8",
            "10.0.0.0/8",
            "0.0.0.0/0",
            "tcp 80",
            "tcp",
            "all",
        ];
        let order_of_six = [
            "2001:db8::1",
            "2001:db8::/127",
            "2001:db8::/32",
            "::/0",
            "tcp 80",
        ];
        for order in [&order[..], &order_of_six] {
            let breadths: Vec<u16> = order
                .iter()
                .map(|text| text.parse::<Flow>().unwrap().breadth())
                .collect();
            assert!(breadths.is_sorted_by(|a, b| a < b), "{breadths:?}");
        }
    }

    proptest! {
        #[test]
        fn printed_flow_parses_to_the_same_value(flow in flows()) {
            prop_assert_eq!(flow.to_string().parse(), Ok(flow));
            let json = serde_json::to_string(&flow).unwrap();
            prop_assert_eq!(serde_json::from_str::<Flow>(&json).unwrap(), flow);
        }

        #[test]
        fn flows_overlap_if_they_have_a_packet_in_common(
            one in small_flows(), other in small_flows(),
        ) {
            let shared = packets().any(|packet| has(&one, packet) && has(&other, packet));
            prop_assert_eq!(one.overlaps(&other), shared, "{} and {}", one, other);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text: String) {
            if let Ok(flow) = text.parse::<Flow>() {
                prop_assert!(flow.breadth() <= 3 * BITS_MAX + 2);
            }
        }
    }
}
