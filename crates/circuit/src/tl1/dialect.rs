//! Commands and lists of three vendors.
//!
//! A [`Dialect`] writes commands to connect, disconnect and list, and reads the lines of a list. Calient and
//! Glimmerglass make photonic switches, in which a channel is a fiber or a wavelength. The Cisco 15454 is a SONET
//! switch, in which a channel is a signal such as `STS3C`. Only Glimmerglass reports the power of light in its lists.

use crate::tl1::command::Command;
use crate::tl1::cross_connect::{CrossConnect, Direction, Port};

/// Commands of a vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Calient photonic switches.
    Calient,
    /// Glimmerglass photonic switches.
    Glimmerglass,
    /// Cisco ONS 15454.
    Cisco {
        /// Signal of a cross-connect, such as `STS3C`.
        signal: String,
    },
}

/// Line of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Cross-connect.
    pub cross_connect: CrossConnect,
    /// Power of light at the output port in dBm, if the switch reports it.
    pub power_dbm: Option<f64>,
}

/// Line of a list that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnEntry;

impl Dialect {
    /// Returns the default port of TCP.
    pub const fn port(&self) -> u16 {
        match self {
            Self::Calient | Self::Cisco { .. } => 3083,
            Self::Glimmerglass => 10034,
        }
    }

    /// Returns the command to log in. Name and password must be free of punctuation.
    pub fn login(user: &str, password: &str) -> Command {
        let after = format!("::{password}");
        Command::new("ACT-USER", format!("ACT-USER::{user}:"), &after)
    }

    /// Returns the command to log out.
    pub fn logout(user: &str) -> Command {
        Command::new("CANC-USER", format!("CANC-USER::{user}:"), "")
    }

    /// Returns the command that turns off alarms and events in the session.
    pub fn inhibit() -> Command {
        Command::plain("INH-MSG-ALL:::".to_owned(), "")
    }

    /// Returns the command to create a cross-connect.
    pub fn connect(&self, wanted: &CrossConnect) -> Command {
        let (from, to) = (wanted.from(), wanted.to());
        let direction = way(wanted);
        match self {
            Self::Calient => {
                Command::plain(format!("ENT-CRS::{from},{to}:"), &format!("::,{direction}"))
            }
            Self::Glimmerglass => Command::plain(format!("ENT-CRS-FIBER::{from},{to}:"), ""),
            Self::Cisco { signal } => Command::plain(
                format!("ENT-CRS-{signal}::{from},{to}:"),
                &format!("::{direction}"),
            ),
        }
    }

    /// Returns the command to remove a cross-connect.
    pub fn disconnect(&self, old: &CrossConnect) -> Command {
        let (from, to) = (old.from(), old.to());
        match self {
            Self::Calient => Command::new(
                &format!("DLT-CRS {old}"),
                "DLT-CRS:::".to_owned(),
                &format!("::{old}"),
            ),
            Self::Glimmerglass => Command::plain(format!("DLT-CRS-FIBER::{from},{to}:"), ""),
            Self::Cisco { signal } => Command::plain(format!("DLT-CRS-{signal}::{from},{to}:"), ""),
        }
    }

    /// Returns the command to list all cross-connects.
    pub fn list(&self) -> Command {
        let command = match self {
            Self::Calient => Command::plain("RTRV-CRS::,:".to_owned(), "::,,"),
            Self::Glimmerglass => Command::plain("RTRV-CRS-FIBER::ALL:".to_owned(), ""),
            Self::Cisco { signal } => Command::plain(format!("RTRV-CRS-{signal}::ALL:"), ""),
        };
        command.listing()
    }

    /// Returns the command that lists one cross-connect; the switch denies it if the cross-connect does not exist.
    pub fn list_one(&self, wanted: &CrossConnect) -> Command {
        let from = wanted.from();
        let command = match self {
            Self::Calient => Command::new(
                &format!("RTRV-CRS {wanted}"),
                "RTRV-CRS:::".to_owned(),
                &format!("::,{wanted}"),
            ),
            Self::Glimmerglass => Command::plain(format!("RTRV-CRS-FIBER::{from}:"), ""),
            Self::Cisco { signal } => Command::plain(format!("RTRV-CRS-{signal}::{from}:"), ""),
        };
        command.query()
    }

    /// Returns true if lists have the power of light.
    pub fn has_power(&self) -> bool {
        *self == Self::Glimmerglass
    }

    /// Returns true if the switch can connect ports in this direction with one command.
    pub fn supports(&self, direction: Direction) -> bool {
        match direction {
            Direction::OneWay => true,
            Direction::TwoWay => *self != Self::Glimmerglass,
            Direction::Other => false,
        }
    }

    /// Parses a line of a list. A port without a cross-connect is no entry; a protected cross-connect is several.
    pub fn parse_line(&self, line: &str) -> Result<Vec<Entry>, NotAnEntry> {
        match self {
            Self::Calient => calient(line),
            Self::Glimmerglass => glimmerglass(line),
            Self::Cisco { .. } => cisco(line),
        }
    }
}

/// Reads `A>B:SRCPORT=A,DSTPORT=B,GRPNAME=...,CONNNAME=...,CONNTYPE=1WAY,...`.
fn calient(line: &str) -> Result<Vec<Entry>, NotAnEntry> {
    let port = |key| value(line, key).and_then(Port::new).ok_or(NotAnEntry);
    let (from, to) = (port("SRCPORT")?, port("DSTPORT")?);
    let direction = direction(value(line, "CONNTYPE").ok_or(NotAnEntry)?);
    Ok(vec![Entry {
        cross_connect: CrossConnect::new(from, to, direction),
        power_dbm: None,
    }])
}

/// Reads `GGN:IPORTID=10001,IPORTNAME=,OPORTID=20002,...,INPWR=-5.873,OUTPWR=-6.762,...`. A missing port is 0.
fn glimmerglass(line: &str) -> Result<Vec<Entry>, NotAnEntry> {
    let port = |key| match value(line, key) {
        None => Err(NotAnEntry),
        Some("" | "0") => Ok(None),
        Some(name) => Port::new(name).map(Some).ok_or(NotAnEntry),
    };
    let (Some(from), Some(to)) = (port("IPORTID")?, port("OPORTID")?) else {
        return Ok(Vec::new());
    };
    let power = value(line, "OUTPWR").and_then(|power| power.parse::<f64>().ok());
    Ok(vec![Entry {
        cross_connect: CrossConnect::new(from, to, Direction::OneWay),
        power_dbm: power.filter(|power| power.is_finite()),
    }])
}

/// Reads `FROM,TO:2WAY,STS3C`. Each side of a protected cross-connect has several ports, as in `A&B`.
fn cisco(line: &str) -> Result<Vec<Entry>, NotAnEntry> {
    let (ends, rest) = line.split_once(':').ok_or(NotAnEntry)?;
    let (from, to) = ends.split_once(',').ok_or(NotAnEntry)?;
    let kind = rest.split([',', ':']).next().unwrap_or_default();
    let ports = |list: &str| -> Result<Vec<Port>, NotAnEntry> {
        let names = list
            .split('&')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let ports: Option<Vec<Port>> = names.map(Port::new).collect();
        let ports = ports.filter(|ports| (1..=PORTS_MAX).contains(&ports.len()));
        ports.ok_or(NotAnEntry)
    };
    let (from, to) = (ports(from)?, ports(to)?);
    let is_simple = from.len() == 1 && to.len() == 1;
    let direction = if is_simple {
        direction(kind)
    } else {
        Direction::Other
    };
    let pairs = from
        .iter()
        .flat_map(|from| to.iter().map(move |to| (from, to)));
    let entries = pairs.map(|(from, to)| Entry {
        cross_connect: CrossConnect::new(from.clone(), to.clone(), direction),
        power_dbm: None,
    });
    Ok(entries.collect())
}

/// Returns the value of `KEY=value` in a line.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut fields = line.split([':', ',']);
    fields.find_map(|field| {
        let (name, value) = field.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case(key)
            .then_some(value.trim())
    })
}

fn direction(kind: &str) -> Direction {
    match kind.trim().to_ascii_uppercase().as_str() {
        "1WAY" => Direction::OneWay,
        "2WAY" => Direction::TwoWay,
        _ => Direction::Other,
    }
}

const fn way(wanted: &CrossConnect) -> &'static str {
    match wanted.direction() {
        Direction::OneWay => "1WAY",
        Direction::TwoWay | Direction::Other => "2WAY",
    }
}

/// Maximum number of ports of one side of a cross-connect.
const PORTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(from: &str, to: &str, direction: Direction) -> CrossConnect {
        CrossConnect::new(Port::new(from).unwrap(), Port::new(to).unwrap(), direction)
    }

    fn cisco() -> Dialect {
        Dialect::Cisco {
            signal: "STS3C".to_owned(),
        }
    }

    #[test]
    fn commands_have_the_text_of_each_vendor() {
        let one = connect("10001", "20002", Direction::OneWay);
        let both = connect("1.1.1", "1.2.1", Direction::TwoWay);
        let slots = connect("STS-1-1-1", "STS-12-1-4", Direction::TwoWay);
        for (command, text) in [
            (Dialect::login("ada", "secret"), "ACT-USER::ada:7::secret;"),
            (Dialect::logout("ada"), "CANC-USER::ada:7;"),
            (Dialect::inhibit(), "INH-MSG-ALL:::7;"),
            (
                Dialect::Calient.connect(&both),
                "ENT-CRS::1.1.1,1.2.1:7::,2WAY;",
            ),
            (
                Dialect::Calient.connect(&one),
                "ENT-CRS::10001,20002:7::,1WAY;",
            ),
            (
                Dialect::Calient.disconnect(&both),
                "DLT-CRS:::7::1.1.1-1.2.1;",
            ),
            (
                Dialect::Calient.disconnect(&one),
                "DLT-CRS:::7::10001>20002;",
            ),
            (Dialect::Calient.list(), "RTRV-CRS::,:7::,,;"),
            (
                Dialect::Calient.list_one(&both),
                "RTRV-CRS:::7::,1.1.1-1.2.1;",
            ),
            (
                Dialect::Glimmerglass.connect(&one),
                "ENT-CRS-FIBER::10001,20002:7;",
            ),
            (
                Dialect::Glimmerglass.disconnect(&one),
                "DLT-CRS-FIBER::10001,20002:7;",
            ),
            (Dialect::Glimmerglass.list(), "RTRV-CRS-FIBER::ALL:7;"),
            (
                Dialect::Glimmerglass.list_one(&one),
                "RTRV-CRS-FIBER::10001:7;",
            ),
            (
                cisco().connect(&slots),
                "ENT-CRS-STS3C::STS-1-1-1,STS-12-1-4:7::2WAY;",
            ),
            (
                cisco().disconnect(&slots),
                "DLT-CRS-STS3C::STS-1-1-1,STS-12-1-4:7;",
            ),
            (cisco().list(), "RTRV-CRS-STS3C::ALL:7;"),
            (cisco().list_one(&slots), "RTRV-CRS-STS3C::STS-1-1-1:7;"),
        ] {
            assert_eq!(command.text("7"), text);
            assert!(!format!("{command:?}").contains("secret"));
            assert_eq!(
                command.is_list,
                text.contains(":,:") || text.contains("ALL:7"),
                "{text}"
            );
        }
    }

    #[test]
    fn lines_of_each_vendor_are_parsed() {
        let parse = |dialect: &Dialect, line: &str| dialect.parse_line(line);
        let one = |from, to| connect(from, to, Direction::OneWay);
        let is = |cross_connect, power_dbm| {
            Ok(vec![Entry {
                cross_connect,
                power_dbm,
            }])
        };
        let line = "10.13a.1-10.13a.2:SRCPORT=10.13a.1,DSTPORT=10.13a.2,GRPNAME=LAB,CONNNAME=13A,CONNTYPE=2WAY,AS=IS,MATRIXUSED=31.1";
        let both = connect("10.13A.1", "10.13A.2", Direction::TwoWay);
        assert_eq!(parse(&Dialect::Calient, line), is(both, None));
        let line = "1>2:SRCPORT=1,DSTPORT=2,CONNTYPE=1WAYMC";
        let other = connect("1", "2", Direction::Other);
        assert_eq!(parse(&Dialect::Calient, line), is(other, None));
        let line = "GGN:IPORTID=10046,IPORTNAME=,OPORTID=20047,OPORTNAME=,CONNSTATE=steady,INPWR=-5.873,OUTPWR=-6.762,PWRLOSS=0.889";
        assert_eq!(
            parse(&Dialect::Glimmerglass, line),
            is(one("10046", "20047"), Some(-6.762))
        );
        let line = "GGN:IPORTID=10001,IPORTNAME=,OPORTID=0,CONNSTATE=single,OUTPWR=0.000";
        assert_eq!(parse(&Dialect::Glimmerglass, line), Ok(Vec::new()));
        let slots = connect("STS-5-1-1", "STS-6-1-1", Direction::TwoWay);
        assert_eq!(
            parse(&cisco(), "STS-6-1-1,STS-5-1-1:2WAY,STS3C"),
            is(slots, None)
        );
        let protected = parse(&cisco(), "STS-1-1-1&STS-2-1-1,STS-3-1-1:2WAY,STS3C").unwrap();
        let kinds: Vec<Direction> = protected
            .iter()
            .map(|entry| entry.cross_connect.direction())
            .collect();
        assert_eq!(kinds, [Direction::Other, Direction::Other]);
    }

    #[test]
    fn unknown_lines_are_refused() {
        for (dialect, line) in [
            (Dialect::Calient, "SRCPORT=1,DSTPORT=2"),
            (Dialect::Calient, "SRCPORT=1;,DSTPORT=2,CONNTYPE=1WAY"),
            (Dialect::Glimmerglass, "GGN:IPORTID=1"),
            (Dialect::Glimmerglass, ""),
            (cisco(), "STS-1-1-1:2WAY"),
            (cisco(), "STS-1-1-1,:2WAY"),
            (cisco(), "A&B&C&D&E&F&G&H&I,J:2WAY"),
        ] {
            assert_eq!(dialect.parse_line(line), Err(NotAnEntry), "{line}");
        }
    }
}
