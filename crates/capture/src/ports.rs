//! Ranges of ports.

use std::fmt;
use std::str::FromStr;

use lighthaul_base::unsigned;

/// Range of ports without port zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// All ports.
    pub const ALL: Self = Self {
        first: 1,
        last: u16::MAX,
    };

    /// Creates the range from `first` to `last`. Returns nothing for an empty range or port zero.
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first == 0 || first > last {
            None
        } else {
            Some(Self { first, last })
        }
    }

    /// Returns the lowest port.
    pub const fn first(&self) -> u16 {
        self.first
    }

    /// Returns the highest port.
    pub const fn last(&self) -> u16 {
        self.last
    }

    /// Returns true if the range contains `port`.
    pub const fn contains(&self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (1, u16::MAX) => write!(f, "*"),
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

impl FromStr for Ports {
    type Err = NotPorts;

    fn from_str(text: &str) -> Result<Self, NotPorts> {
        if text == "*" {
            return Ok(Self::ALL);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = unsigned::number(first).zip(unsigned::number(last));
        ports
            .and_then(|(first, last)| Self::new(first, last))
            .ok_or_else(|| NotPorts(text.to_owned()))
    }
}

/// Fault of the text of a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a range of ports: write 443, 1000-2000 or * for all")]
pub struct NotPorts(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_parsed_and_printed() {
        for text in ["443", "1000-2000", "*", "1", "65535"] {
            assert_eq!(text.parse::<Ports>().unwrap().to_string(), text);
        }
        assert_eq!("1-65535".parse(), Ok(Ports::ALL));
        for text in ["", "0", "2-1", "65536", "+1", "1-", "-1", "1-2-3", "http"] {
            assert!(text.parse::<Ports>().is_err(), "{text}");
        }
    }

    #[test]
    fn range_contains_its_first_and_last_port() {
        let ports: Ports = "1000-2000".parse().unwrap();
        for (port, is_inside) in [
            (0, false),
            (999, false),
            (1000, true),
            (2000, true),
            (2001, false),
        ] {
            assert_eq!(ports.contains(port), is_inside, "{port}");
        }
        assert!(Ports::ALL.contains(1) && Ports::ALL.contains(65535) && !Ports::ALL.contains(0));
    }
}
