//! Datagrams that the host lost before a program received them.
//!
//! `/proc/net/snmp` and, for IPv6, `/proc/net/snmp6` count datagrams that no socket took, for example because its
//! buffer was full. `/proc/net/softnet_stat` counts packets that the kernel dropped because the backlog queue of a
//! processor was full.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counter::{ITEMS_MAX, per_second, risen, risen_32};

/// Lost UDP datagrams over one version of IP since the host started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams that arrived and no socket got, for any reason.
    pub in_errors: u64,
    /// Part of `in_errors` for which the receive buffer had no space.
    pub receive_buffer_errors: u64,
    /// Datagrams for which the send buffer had no space.
    pub send_buffer_errors: u64,
}

/// Lost UDP datagrams per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpRates {
    /// Datagrams that arrived and no socket got, for any reason.
    pub in_errors_per_s: f64,
    /// Part of `in_errors_per_s` for which the receive buffer had no space.
    pub receive_buffer_errors_per_s: f64,
    /// Datagrams for which the send buffer had no space.
    pub send_buffer_errors_per_s: f64,
}

impl UdpCounters {
    /// Takes the value of a counter by its name. Other counters are ignored.
    fn set(&mut self, name: &str, value: &str) {
        let value = value.parse().unwrap_or(0);
        match name {
            "InErrors" => self.in_errors = value,
            "RcvbufErrors" => self.receive_buffer_errors = value,
            "SndbufErrors" => self.send_buffer_errors = value,
            _ => {}
        }
    }

    /// Returns the rates from `before` to this time.
    pub fn rates(&self, before: &Self, interval: Duration) -> UdpRates {
        let rate = |before: u64, after: u64| per_second(risen(before, after), interval);
        UdpRates {
            in_errors_per_s: rate(before.in_errors, self.in_errors),
            receive_buffer_errors_per_s: rate(
                before.receive_buffer_errors,
                self.receive_buffer_errors,
            ),
            send_buffer_errors_per_s: rate(before.send_buffer_errors, self.send_buffer_errors),
        }
    }
}

impl UdpRates {
    /// Returns the sums of two sets of rates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            in_errors_per_s: self.in_errors_per_s + other.in_errors_per_s,
            receive_buffer_errors_per_s: self.receive_buffer_errors_per_s
                + other.receive_buffer_errors_per_s,
            send_buffer_errors_per_s: self.send_buffer_errors_per_s
                + other.send_buffer_errors_per_s,
        }
    }
}

/// Parses the line of names and the line of values of UDP in `/proc/net/snmp`.
pub fn parse(text: &str) -> Option<UdpCounters> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let pairs = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace());
    let mut counters = UdpCounters::default();
    for (name, value) in pairs {
        counters.set(name, value);
    }
    Some(counters)
}

/// Parses the lines of UDP in `/proc/net/snmp6`, each with a name and a value. A kernel without IPv6 has none.
pub fn parse_v6(text: &str) -> Option<UdpCounters> {
    let mut lines = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("Udp6")?.split_ascii_whitespace();
        Some((words.next()?, words.next()?))
    });
    let mut counters = UdpCounters::default();
    let (name, value) = lines.next()?;
    counters.set(name, value);
    lines.for_each(|(name, value)| counters.set(name, value));
    Some(counters)
}

/// Returns the dropped packets of each processor, from the second column of
/// `/proc/net/softnet_stat`. Its order is that of the processors that are online.
pub fn parse_softnet(text: &str) -> Vec<u64> {
    let lines = text.lines().map_while(|line| {
        let word = line.split_ascii_whitespace().nth(1)?;
        u64::from_str_radix(word, 16).ok()
    });
    lines.take(ITEMS_MAX).collect()
}

/// Returns the packets per second that all processors dropped.
///
/// With another number of processors than before, the columns do not match, and it is 0.
pub fn softnet_drops_per_s(before: &[u64], after: &[u64], interval: Duration) -> f64 {
    if before.len() != after.len() {
        return 0.0;
    }
    let pairs = before.iter().zip(after);
    let rises = pairs.map(|(before, after)| risen_32(*before, *after));
    per_second(rises.fold(0, u64::saturating_add), interval)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "Tcp: A\nTcp: 1\nUdp: InDatagrams InErrors RcvbufErrors Other\nUdp: 9 8 7 6\n\
                    UdpLite: InErrors\nUdpLite: 5\n";
        let counters = UdpCounters {
            in_errors: 8,
            receive_buffer_errors: 7,
            send_buffer_errors: 0,
        };
        assert_eq!(parse(text), Some(counters));
        assert_eq!(parse("Udp: InErrors\n"), None);
    }

    #[test]
    fn counters_of_ipv6_have_a_line_each() {
        let text = "Ip6InDiscards   3\nUdp6InDatagrams   12\nUdp6InErrors   8\nUdp6RcvbufErrors 7\n\
                    Udp6SndbufErrors\t1\nUdpLite6InErrors 5\n";
        let counters = UdpCounters {
            in_errors: 8,
            receive_buffer_errors: 7,
            send_buffer_errors: 1,
        };
        assert_eq!(parse_v6(text), Some(counters));
        let first = parse_v6("Udp6RcvbufErrors 4\n").unwrap();
        assert_eq!(first.receive_buffer_errors, 4);
        assert_eq!(parse_v6("Ip6InDiscards 3\nUdp6InErrors\n"), None);
    }

    #[test]
    fn rates_of_both_versions_of_ip_are_added() {
        let rates = UdpRates {
            in_errors_per_s: 1.0,
            receive_buffer_errors_per_s: 2.0,
            send_buffer_errors_per_s: 4.0,
        };
        let other = UdpRates {
            in_errors_per_s: 0.5,
            receive_buffer_errors_per_s: 3.0,
            send_buffer_errors_per_s: 5.0,
        };
        let sum = UdpRates {
            in_errors_per_s: 1.5,
            receive_buffer_errors_per_s: 5.0,
            send_buffer_errors_per_s: 9.0,
        };
        assert_eq!(rates.plus(other), sum);
    }

    #[test]
    fn softnet_drops_are_summed_and_wrap() {
        let before = parse_softnet("04a22401 fffffffe 00000007\n0532e463 00000001 0\n");
        let after = parse_softnet("04a22402 00000002 00000007\n0532e463 00000003 0\n");
        let second = Duration::from_secs(1);
        assert!((softnet_drops_per_s(&before, &after, second) - 6.0).abs() < 1e-9);
        assert!(softnet_drops_per_s(&before, &after[..1], second).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text: String, lines in "(Udp: [A-Za-z0-9 -]{0,30}\n){0,3}") {
            parse(&text);
            parse(&lines);
            parse_v6(&text);
            parse_v6(&lines.replace(": ", "6"));
            parse_softnet(&text);
        }
    }
}
