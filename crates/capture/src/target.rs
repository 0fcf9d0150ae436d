//! Target of a session: a host and a TCP port.
//!
//! A [`Target`] comes from text, from a `SOCKS5` request or from another gateway. Its [`Host`] is
//! an address or a name that no resolver takes for an address. So rules for addresses cannot be
//! evaded by notation. [`Target::put`] and [`Target::read`] use the format of RFC 1928, section 5.
//! Nothing here resolves names.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use lighthaul_base::codec::{Malformed, Reader};
use lighthaul_base::unsigned;

/// Host and TCP port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Host.
    pub host: Host,
    /// Port, never zero.
    pub port: u16,
}

/// Host as a program names it. [`Host::new`] and [`Target::read`] refuse invalid ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// Name in lower case that is not an address. The egress gateway resolves it.
    Name(String),
    /// Address, never an IPv4-mapped IPv6 address.
    Ip(IpAddr),
}

impl Target {
    /// Appends the address in the format of a SOCKS5 request (RFC 1928, section 5).
    pub fn put(&self, out: &mut Vec<u8>) {
        match &self.host {
            Host::Name(name) => {
                let name = &name.as_bytes()[..name.len().min(NAME_MAX)];
                out.extend([NAME, name.len() as u8]);
                out.extend_from_slice(name);
            }
            Host::Ip(IpAddr::V4(address)) => {
                out.push(V4);
                out.extend(address.octets());
            }
            Host::Ip(IpAddr::V6(address)) => {
                out.push(V6);
                out.extend(address.octets());
            }
        }
        out.extend(self.port.to_be_bytes());
    }

    /// Appends any address in the same format. The port may be zero, as in the answer to a SOCKS5
    /// request.
    pub fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
        let (host, port) = (address.ip().into(), address.port());
        Self { host, port }.put(out);
    }

    /// Reads the format of [`Self::put`].
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let host = match reader.u8()? {
            V4 => Host::from(IpAddr::from(reader.array::<4>()?)),
            V6 => Host::from(IpAddr::from(reader.array::<16>()?)),
            NAME => {
                let len = reader.u8()?;
                let name = std::str::from_utf8(reader.take(len.into())?);
                name.ok().and_then(Host::new).ok_or(Malformed)?
            }
            _ => return Err(Malformed),
        };
        match reader.u16()? {
            0 => Err(Malformed),
            port => Ok(Self { host, port }),
        }
    }

    /// Returns the length of the address that begins with `octets`, or none if there are too few octets.
    pub fn read_len(octets: &[u8]) -> Option<Result<usize, Malformed>> {
        let host = match *octets.first()? {
            V4 => 4,
            V6 => 16,
            NAME => 1 + usize::from(*octets.get(1)?),
            _ => return Some(Err(Malformed)),
        };
        Some(Ok(1 + host + 2))
    }
}

impl TryFrom<SocketAddr> for Target {
    type Error = NotATarget;

    /// Converts the address of a connection. Fails for port zero, to which a program can connect,
    /// but which other gateways refuse.
    fn try_from(address: SocketAddr) -> Result<Self, NotATarget> {
        match address.port() {
            0 => Err(NotATarget(address.to_string())),
            port => Ok(Self {
                host: address.ip().into(),
                port,
            }),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Ip(IpAddr::V4(_)) | Host::Name(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Target {
    type Err = NotATarget;

    fn from_str(text: &str) -> Result<Self, NotATarget> {
        let wrong = || NotATarget(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = unsigned::number(port).filter(|port| *port > 0);
        let port = port.ok_or_else(wrong)?;
        let host = match bracketed(host) {
            Some(address) => address.parse().ok().map(|ip| IpAddr::V6(ip).into()),
            None if host.contains(':') => None,
            None => Host::new(host),
        };
        let host = host.ok_or_else(wrong)?;
        Ok(Self { host, port })
    }
}

impl Host {
    /// Returns the host of a name, or of an IPv4 or IPv6 address without brackets.
    ///
    /// Names that end in a number are refused, since resolvers take `127.1` and `0x7f000001` for addresses.
    pub fn new(text: &str) -> Option<Self> {
        match text.parse::<IpAddr>() {
            Ok(address) => Some(address.into()),
            Err(_) => is_name(text).then(|| Self::Name(text.to_ascii_lowercase())),
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Ip(address.to_canonical())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(address) => write!(f, "{address}"),
        }
    }
}

/// Fault of the text of a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a target: write example.org:443, 10.0.0.1:443 or [fd00::1]:443")]
pub struct NotATarget(String);

/// Returns the text between brackets, which enclose IPv6 addresses before ports.
pub fn bracketed(text: &str) -> Option<&str> {
    text.strip_prefix('[')?.strip_suffix(']')
}

fn is_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=LABEL_MAX).contains(&label.len())
            && label
                .bytes()
                .all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_'))
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    text.len() <= NAME_MAX && name.split('.').all(is_label) && !is_number(last)
}

/// Returns true if a resolver may take the label for the end of an IPv4 address.
fn is_number(label: &str) -> bool {
    let hex = label
        .strip_prefix("0x")
        .or_else(|| label.strip_prefix("0X"));
    hex.is_some_and(|hex| hex.bytes().all(|octet| octet.is_ascii_hexdigit()))
        || label.bytes().all(|octet| octet.is_ascii_digit())
}

/// Address types of RFC 1928.
const V4: u8 = 1;
const NAME: u8 = 3;
const V6: u8 = 4;
/// Maximum number in one octet.
const NAME_MAX: usize = 255;
/// RFC 1035, section 2.3.4.
const LABEL_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn port_zero_is_not_a_valid_target() {
        let address: SocketAddr = "10.0.0.1:443".parse().unwrap();
        assert_eq!(Target::try_from(address), "10.0.0.1:443".parse());
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:443".parse().unwrap();
        assert_eq!(Target::try_from(mapped), "10.0.0.1:443".parse());
        let zero: SocketAddr = "[fd00::1]:0".parse().unwrap();
        assert_eq!(
            Target::try_from(zero),
            Err(NotATarget("[fd00::1]:0".to_owned()))
        );
    }

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn targets_are_parsed_and_printed() {
        for text in [
            "[::1]:80",
            "example.org:443",
            "10.0.0.1:65535",
            "a_b-c.:1",
            "x:22",
        ] {
            assert_eq!(target(text).to_string(), text);
        }
        assert_eq!(target("Example.ORG:443"), target("example.org:443"));
        assert_eq!(target("[::ffff:10.0.0.1]:1"), target("10.0.0.1:1"));
        let long = format!("{}:1", ["a"; 128].join("."));
        assert_eq!(target(&long).to_string(), long);
    }

    #[test]
    fn invalid_targets_are_refused() {
        for text in [
            "",
            "example.org",
            "example.org:0",
            "example.org:65536",
            "example.org:+1",
            ":80",
            ".:80",
            "a..b:1",
            ".a:1",
            "::1:80",
            "[10.0.0.1]:80",
            "[::1]80",
            "[::1%lo]:80",
            "a b:1",
            "a/b:1",
            "127.1:80",
            "0x7f000001:80",
            "2130706433:80",
            "a.0x1:80",
            "1.2.3.4.5:80",
            "é:80",
            "a@b:80",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        let long = format!("{}:1", "a".repeat(64));
        assert!(long.parse::<Target>().is_err());
        let long = format!("{}:1", ["a"; 129].join("."));
        assert!(long.parse::<Target>().is_err());
    }

    proptest! {
        #[test]
        fn targets_round_trip(text in "([a-z]{1,9}|[0-9a-f:]{2,9}|[a-z]\\.[0-9]{1,3})", port in 1_u16.., ip: u128) {
            let host = Host::new(&text).unwrap_or_else(|| IpAddr::V6(ip.into()).into());
            let target = Target { host, port };
            let mut out = Vec::new();
            target.put(&mut out);
            prop_assert_eq!(Target::read_len(&out), Some(Ok(out.len())));
            let mut reader = Reader::new(&out);
            prop_assert_eq!(Target::read(&mut reader), Ok(target.clone()));
            prop_assert!(reader.is_empty());
            prop_assert_eq!(target.to_string().parse(), Ok(target));
        }

        #[test]
        fn any_octets_are_decoded_without_panic(octets in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(target) = Target::read(&mut Reader::new(&octets)) {
                prop_assert_eq!(target.to_string().parse(), Ok(target));
            }
        }
    }
}
