//! Transfers of disks, from `/proc/diskstats`.
//!
//! Partitions have lines of their own, and [`parse`] keeps them: only the caller knows the names of
//! whole disks (`/sys/block`). Sectors are 512 bytes on every disk
//! (`Documentation/admin-guide/iostats.rst` of Linux).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counter::{ITEMS_MAX, NAME_MAX, fraction, numbers, per_second, risen, risen_32};

/// Counters of one disk since it appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Milliseconds with at least one request in flight; wraps after 32 bits.
    pub busy_millis: u64,
}

/// Rates of one disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskRates {
    /// Name of the device.
    pub name: String,
    /// Bytes read per second.
    pub read_bytes_per_s: f64,
    /// Bytes written per second.
    pub write_bytes_per_s: f64,
    /// Fraction of the time with at least one request in flight.
    pub busy: f64,
}

impl DiskCounters {
    /// Returns the rates from `before` to this time.
    pub fn rates(&self, name: &str, before: &Self, interval: Duration) -> DiskRates {
        let millis = risen_32(before.busy_millis, self.busy_millis) as f64;
        DiskRates {
            name: name.to_owned(),
            read_bytes_per_s: per_second(risen(before.read_bytes, self.read_bytes), interval),
            write_bytes_per_s: per_second(
                risen(before.written_bytes, self.written_bytes),
                interval,
            ),
            busy: fraction(millis, interval.as_secs_f64() * 1e3),
        }
    }
}

/// Parses `/proc/diskstats`. Malformed lines are skipped.
pub fn parse(text: &str) -> BTreeMap<String, DiskCounters> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next().filter(|name| name.len() <= NAME_MAX)?;
        // the name may stand in the line before, as a number
        let behind = name.as_ptr() as usize - line.as_ptr() as usize + name.len();
        let fields = numbers(&line[behind..]);
        let bytes = |nth: usize| Some(fields.get(nth)?.saturating_mul(SECTOR));
        let counters = DiskCounters {
            read_bytes: bytes(2)?,
            written_bytes: bytes(6)?,
            busy_millis: *fields.get(9)?,
        };
        Some((name.to_owned(), counters))
    });
    lines.take(ITEMS_MAX).collect()
}

/// Bytes of a sector.
const SECTOR: u64 = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DISKS: &str = "   7       0 loop0 272444 2167 14 212867 150510 98690 17 196637 0 60092 413944 0 0\n\
                         254       0 vda 947723 153652 611 4130599 2848726 2793499 1468 14256647 0 1333048 18915370\n\
                         8 0 sda 1 2 3\n8 16 sdb\n";

    #[test]
    fn only_complete_lines_are_parsed_as_disks() {
        let disks = parse(DISKS);
        let vda = DiskCounters {
            read_bytes: 611 * 512,
            written_bytes: 1468 * 512,
            busy_millis: 1_333_048,
        };
        assert_eq!(disks.keys().collect::<Vec<_>>(), ["loop0", "vda"]);
        assert_eq!(disks["vda"], vda);
    }

    #[test]
    fn busy_time_wraps_after_32_bits() {
        let before = DiskCounters {
            busy_millis: u64::from(u32::MAX) - 99,
            ..DiskCounters::default()
        };
        let after = DiskCounters {
            read_bytes: 3000,
            written_bytes: 10,
            busy_millis: 400,
        };
        let rates = after.rates("vda", &before, Duration::from_secs(2));
        assert!((rates.busy - 0.25).abs() < 1e-9, "{rates:?}");
        assert!((rates.read_bytes_per_s - 1500.0).abs() < 1e-9);
        assert!((rates.write_bytes_per_s - 5.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text: String, lines in "([0-9]{1,3} [0-9] [a-zé0-9]{1,80}( [0-9]{1,20}){0,15}\n){0,4}") {
            parse(&text);
            for name in parse(&lines).keys() {
                prop_assert!(name.len() <= NAME_MAX);
            }
        }
    }
}
