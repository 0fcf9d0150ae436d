//! Range of ports, as a firewall lets them pass: `5000-5009`.

use core::fmt;
use core::str::FromStr;

use crate::unsigned;

/// Ports from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// Text that is no range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsePortRangeError;

impl fmt::Display for ParsePortRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a range of ports: write FROM-TO, as in 5000-5009")
    }
}

impl core::error::Error for ParsePortRangeError {}

impl PortRange {
    /// Returns all ports of the range once, starting with the one that `seed` selects.
    pub fn ports_from(self, seed: u64) -> impl Iterator<Item = u16> {
        let count = u32::from(self.last - self.first) + 1;
        let start = (seed % u64::from(count)) as u32;
        (0..count).map(move |nth| self.first + ((start + nth) % count) as u16)
    }
}

impl FromStr for PortRange {
    type Err = ParsePortRangeError;

    /// Parses `FROM-TO`, `FROM:TO` or a single port. Port 0 is not allowed.
    fn from_str(text: &str) -> Result<Self, ParsePortRangeError> {
        let (first, last) = text.split_once(['-', ':']).unwrap_or((text, text));
        let port = |digits: &str| {
            let number = unsigned::number(digits).filter(|port| *port > 0);
            number.ok_or(ParsePortRangeError)
        };
        let range = Self {
            first: port(first)?,
            last: port(last)?,
        };
        if range.first <= range.last {
            Ok(range)
        } else {
            Err(ParsePortRangeError)
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn ranges_of_both_notations_are_parsed() {
        for (text, shown) in [
            ("5000-5009", "5000-5009"),
            ("5000:5009", "5000-5009"),
            ("7", "7"),
            ("1-65535", "1-65535"),
        ] {
            let range: PortRange = text.parse().unwrap();
            assert_eq!(range.to_string(), shown);
        }
        for text in [
            "", "-", "5-", "-5", "9-8", "0-5", "1-65536", "+1-2", "a-b", "1-2-3", "1 - 2",
        ] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_port_is_tried_once_from_any_seed() {
        let range: PortRange = "10-13".parse().unwrap();
        for seed in [0, 3, 5, u64::MAX] {
            let mut ports: Vec<u16> = range.ports_from(seed).collect();
            ports.sort_unstable();
            assert_eq!(ports, [10, 11, 12, 13]);
        }
        let all: PortRange = "1-65535".parse().unwrap();
        assert_eq!(all.ports_from(1).count(), 65535);
    }
}
