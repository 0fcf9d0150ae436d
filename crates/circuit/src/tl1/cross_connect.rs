//! Ports of a switch, and cross-connects between them.

use std::fmt;
use std::iter::once;

use serde::{Deserialize, Serialize};

/// Name of a port in upper case, since TL1 ignores the case of letters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Port(String);

/// Path of light or of a SONET signal through a switch.
///
/// The ports of a cross-connect in both directions are sorted, so that equal ones compare equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CrossConnect {
    from: Port,
    to: Port,
    direction: Direction,
}

/// Directions of a cross-connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the first port to the second.
    OneWay,
    /// Between both ports.
    TwoWay,
    /// Any other type, such as a protected or multicast cross-connect, which no driver creates.
    Other,
}

impl Port {
    /// Returns the port with this name. Returns nothing if the name is empty, too long, or could change a command.
    pub fn new(name: &str) -> Option<Self> {
        let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._/".contains(&octet);
        let fits = (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain);
        fits.then(|| Self(name.to_ascii_uppercase()))
    }
}

impl CrossConnect {
    /// Creates a cross-connect.
    pub fn new(from: Port, to: Port, direction: Direction) -> Self {
        let is_swapped = direction != Direction::OneWay && to < from;
        let (from, to) = if is_swapped { (to, from) } else { (from, to) };
        Self {
            from,
            to,
            direction,
        }
    }

    /// Returns the input port, or the lower one of two directions.
    pub const fn from(&self) -> &Port {
        &self.from
    }

    /// Returns the output port, or the higher one of two directions.
    pub const fn to(&self) -> &Port {
        &self.to
    }

    /// Returns the directions.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns true if both cross-connects use one input or one output, so that a switch cannot have both.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let inputs = self
            .inputs()
            .any(|mine| other.inputs().any(|its| mine == its));
        let mut outputs = self.outputs();
        inputs || outputs.any(|mine| other.outputs().any(|its| mine == its))
    }

    fn inputs(&self) -> impl Iterator<Item = &Port> {
        let both = self.direction != Direction::OneWay;
        once(&self.from).chain(both.then_some(&self.to))
    }

    fn outputs(&self) -> impl Iterator<Item = &Port> {
        let both = self.direction != Direction::OneWay;
        once(&self.to).chain(both.then_some(&self.from))
    }
}

impl TryFrom<String> for Port {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(&name).ok_or("not the name of a port")
    }
}

impl From<Port> for String {
    fn from(port: Port) -> Self {
        port.0
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CrossConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.direction {
            Direction::OneWay => '>',
            Direction::TwoWay | Direction::Other => '-',
        };
        write!(f, "{}{mark}{}", self.from, self.to)
    }
}

const NAME_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(from: &str, to: &str, direction: Direction) -> CrossConnect {
        CrossConnect::new(Port::new(from).unwrap(), Port::new(to).unwrap(), direction)
    }

    #[test]
    fn two_way_cross_connects_are_equal_in_either_order() {
        let both = |from, to| connect(from, to, Direction::TwoWay);
        assert_eq!(both("1.1", "2.a"), both("2.A", "1.1"));
        let one = |from, to| connect(from, to, Direction::OneWay);
        assert_ne!(one("1.1", "2.1"), one("2.1", "1.1"));
        assert_ne!(one("1.1", "2.1"), both("1.1", "2.1"));
    }

    #[test]
    fn cross_connects_conflict_on_an_input_or_an_output() {
        let one = |from, to| connect(from, to, Direction::OneWay);
        let both = |from, to| connect(from, to, Direction::TwoWay);
        assert!(one("1", "2").conflicts_with(&one("1", "3")));
        assert!(one("1", "3").conflicts_with(&one("2", "3")));
        assert!(!one("1", "2").conflicts_with(&one("2", "1")));
        assert!(both("1", "2").conflicts_with(&one("2", "3")));
        assert!(both("1", "2").conflicts_with(&one("3", "1")));
        assert!(!both("1", "2").conflicts_with(&both("3", "4")));
    }

    #[test]
    fn port_name_that_could_change_a_command_is_refused() {
        let long = "1".repeat(NAME_MAX + 1);
        for name in ["", "1;DLT", "1:2", "1,2", "1&2", "1 2", "\"", "é", &long] {
            assert_eq!(Port::new(name), None, "{name}");
        }
        assert_eq!(Port::new("10.13a.1").unwrap().to_string(), "10.13A.1");
    }
}
