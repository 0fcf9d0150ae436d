//! Traffic of network interfaces, from `/proc/net/dev`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counter::{ITEMS_MAX, NAME_MAX, numbers, per_second, risen};

/// Counters of one direction of an interface since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounters {
    /// Bytes, with headers of the link.
    pub bytes: u64,
    /// Number of packets.
    pub packets: u64,
    /// Packets with errors.
    pub errors: u64,
    /// Packets that the kernel dropped.
    pub drops: u64,
}

/// Counters of one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Received packets.
    pub received: TrafficCounters,
    /// Transmitted packets.
    pub transmitted: TrafficCounters,
}

/// Rates of one interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterfaceRates {
    /// Name of the interface.
    pub name: String,
    /// Bytes received per second.
    pub rx_bytes_per_s: f64,
    /// Bytes transmitted per second.
    pub tx_bytes_per_s: f64,
    /// Packets received per second.
    pub rx_packets_per_s: f64,
    /// Packets transmitted per second.
    pub tx_packets_per_s: f64,
    /// Received packets with errors per second.
    pub rx_errors_per_s: f64,
    /// Transmitted packets with errors per second.
    pub tx_errors_per_s: f64,
    /// Received packets that the kernel dropped per second.
    pub rx_drops_per_s: f64,
    /// Packets to transmit that the kernel dropped per second.
    pub tx_drops_per_s: f64,
}

impl InterfaceCounters {
    /// Returns the rates from `before` to this time.
    pub fn rates(&self, name: &str, before: &Self, interval: Duration) -> InterfaceRates {
        let rate = |before: u64, after: u64| per_second(risen(before, after), interval);
        let (rx, tx) = (&self.received, &self.transmitted);
        let (old_rx, old_tx) = (&before.received, &before.transmitted);
        InterfaceRates {
            name: name.to_owned(),
            rx_bytes_per_s: rate(old_rx.bytes, rx.bytes),
            tx_bytes_per_s: rate(old_tx.bytes, tx.bytes),
            rx_packets_per_s: rate(old_rx.packets, rx.packets),
            tx_packets_per_s: rate(old_tx.packets, tx.packets),
            rx_errors_per_s: rate(old_rx.errors, rx.errors),
            tx_errors_per_s: rate(old_tx.errors, tx.errors),
            rx_drops_per_s: rate(old_rx.drops, rx.drops),
            tx_drops_per_s: rate(old_tx.drops, tx.drops),
        }
    }
}

impl InterfaceRates {
    /// Returns the packets lost per second: drops and errors of both directions.
    pub fn losses_per_s(&self) -> f64 {
        self.rx_errors_per_s + self.tx_errors_per_s + self.rx_drops_per_s + self.tx_drops_per_s
    }
}

/// Parses `/proc/net/dev`. Headings and malformed lines are skipped.
pub fn parse(text: &str) -> BTreeMap<String, InterfaceCounters> {
    let lines = text.lines().filter_map(|line| {
        // a name has no colon, but its alias has one
        let (name, rest) = line.rsplit_once(':')?;
        let name = name.trim();
        if name.is_empty() || name.len() > NAME_MAX {
            return None;
        }
        let fields = numbers(rest);
        let traffic = |from: usize| {
            let fields = fields.get(from..from + 4)?;
            Some(TrafficCounters {
                bytes: fields[0],
                packets: fields[1],
                errors: fields[2],
                drops: fields[3],
            })
        };
        let counters = InterfaceCounters {
            received: traffic(0)?,
            transmitted: traffic(8)?,
        };
        Some((name.to_owned(), counters))
    });
    lines.take(ITEMS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEV: &str = "Inter-|   Receive       |  Transmit\n face |bytes packets errs|bytes\n\
                       \x20   lo: 37 12 0 371    0     0          0         0 38 13 0    1    0     0       0          0\n\
                       eth0:371 22 5 6 0 0 0 0 16 19 7 8 0 0 0 0\n  bad: 1 2 3\n";

    #[test]
    fn interfaces_have_both_directions() {
        let interfaces = parse(DEV);
        assert_eq!(interfaces.keys().collect::<Vec<_>>(), ["eth0", "lo"]);
        let eth0 = interfaces["eth0"];
        assert_eq!(
            (
                eth0.received.bytes,
                eth0.received.drops,
                eth0.transmitted.errors
            ),
            (371, 6, 7)
        );
        assert_eq!(interfaces["lo"].transmitted.packets, 13);
    }

    #[test]
    fn counters_of_a_recreated_interface_start_at_zero() {
        let mut before = InterfaceCounters::default();
        before.received.bytes = 1 << 50;
        let mut after = before;
        after.received.bytes = 2000;
        after.transmitted.drops = 4;
        let rates = after.rates("eth0", &before, Duration::from_secs(2));
        assert!((rates.rx_bytes_per_s - 1000.0).abs() < 1e-9, "{rates:?}");
        assert!((rates.losses_per_s() - 2.0).abs() < 1e-9, "{rates:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text: String, lines in "( *[a-z0-9é:]{1,80}:( [0-9]{1,21}){0,17}\n){0,4}") {
            parse(&text);
            for name in parse(&lines).keys() {
                prop_assert!(name.len() <= NAME_MAX);
            }
        }
    }
}
