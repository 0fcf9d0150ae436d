//! Where programs that know of a gateway come in.

use std::fmt;
use std::str::FromStr;

use crate::capture::credentials::Credentials;
use crate::target::Target;

/// A gateway, where it takes SOCKS5, and what is said there where it asks for a name and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyAddress {
    /// The gateway's host and port.
    pub address: Target,
    /// What it asks for, if anything.
    pub credentials: Option<Credentials>,
}

impl From<Target> for ProxyAddress {
    fn from(address: Target) -> Self {
        Self {
            address,
            credentials: None,
        }
    }
}

/// What was written is no gateway's address; what it was may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "write a gateway as 127.0.0.1:1080, or NAME:PASSWORD@127.0.0.1:1080 where it asks for that"
)]
pub struct NotAProxyAddress;

impl FromStr for ProxyAddress {
    type Err = NotAProxyAddress;

    /// Reads `HOST:PORT` or `NAME:PASSWORD@HOST:PORT`; a password may have any character in it.
    fn from_str(text: &str) -> Result<Self, NotAProxyAddress> {
        let (credentials, address) = match text.rsplit_once('@') {
            Some((credentials, address)) => (Some(credentials), address),
            None => (None, text),
        };
        let credentials = credentials.map(str::parse).transpose();
        Ok(Self {
            address: address.parse().map_err(|_| NotAProxyAddress)?,
            credentials: credentials.map_err(|_| NotAProxyAddress)?,
        })
    }
}

impl fmt::Display for ProxyAddress {
    /// The address alone: passwords are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_may_be_before_the_place_and_is_not_shown() {
        let free: ProxyAddress = "127.0.0.1:1080".parse().unwrap();
        assert_eq!(
            free,
            ProxyAddress::from("127.0.0.1:1080".parse::<Target>().unwrap())
        );
        let locked: ProxyAddress = "alice:s:e@cret@gate.example.org:1080".parse().unwrap();
        assert_eq!(locked.credentials, "alice:s:e@cret".parse().ok());
        assert_eq!(locked.to_string(), "gate.example.org:1080");
        assert!(!format!("{locked:?}").contains("cret"));
        for text in [
            "",
            "alice@127.0.0.1:1080",
            ":x@127.0.0.1:1080",
            "a:b@127.0.0.1",
            "a:b@",
        ] {
            assert!(text.parse::<ProxyAddress>().is_err(), "{text:?}");
        }
    }
}
