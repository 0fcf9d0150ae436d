//! Address of a gateway for programs.

use std::fmt;
use std::str::FromStr;

use lighthaul_capture::credentials::Credentials;
use lighthaul_capture::target::Target;

/// Address of a gateway's SOCKS5 listener, with credentials if the listener asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyAddress {
    /// Host and port.
    pub address: Target,
    /// Name and password.
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

/// Fault of the text of a gateway's address. The text is not shown, since it may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a gateway as 127.0.0.1:1080, or NAME:PASSWORD@127.0.0.1:1080 if it asks for them")]
pub struct NotAProxyAddress;

impl FromStr for ProxyAddress {
    type Err = NotAProxyAddress;

    /// Parses `HOST:PORT` or `NAME:PASSWORD@HOST:PORT`. The password may contain any characters.
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
    /// Prints the address without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_parsed_and_not_printed() {
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
