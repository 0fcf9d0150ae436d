//! Address of the gateway, from the environment.

use std::net::SocketAddr;
use std::sync::OnceLock;

/// Address of the gateway, and the credentials for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    /// Name and password, if the gateway requires them.
    pub(crate) credentials: Option<(String, String)>,
}

/// Returns the gateway that the environment names, if any. It is read once, before the program's `main` if possible.
pub(crate) fn gateway() -> Option<&'static Gateway> {
    static GATEWAY: OnceLock<Option<Gateway>> = OnceLock::new();
    let found = GATEWAY.get_or_init(|| Gateway::read(&std::env::var(VARIABLE).ok()?));
    found.as_ref()
}

impl Gateway {
    /// Reads `ip:port` or `name:password@ip:port`.
    fn read(text: &str) -> Option<Self> {
        let Some((credentials, address)) = text.rsplit_once('@') else {
            let address = text.parse().ok()?;
            return Some(Self {
                address,
                credentials: None,
            });
        };
        let (name, password) = credentials.split_once(':')?;
        Some(Self {
            address: address.parse().ok()?,
            credentials: Some((name.to_owned(), password.to_owned())),
        })
    }
}

/// Returns true if a connection to `target` must go through the gateway, even if no gateway is known.
pub(crate) fn is_captured(target: SocketAddr, gateway: Option<SocketAddr>) -> bool {
    let ip = target.ip().to_canonical();
    let is_here = ip.is_loopback() || ip.is_unspecified();
    let is_gateway =
        gateway.is_some_and(|at| (ip, target.port()) == (at.ip().to_canonical(), at.port()));
    !is_here && !is_gateway && !ip.is_multicast()
}

/// Environment variable that `lighthaul wrap` sets.
pub(crate) const VARIABLE: &str = "LIGHTHAUL_WRAP";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_may_precede_the_address() {
        let address = "127.0.0.1:1080".parse().unwrap();
        let credentials = Some(("al".to_owned(), "s:e@t".to_owned()));
        for (text, gateway) in [
            (
                "127.0.0.1:1080",
                Some(Gateway {
                    address,
                    credentials: None,
                }),
            ),
            (
                "al:s:e@t@127.0.0.1:1080",
                Some(Gateway {
                    address,
                    credentials,
                }),
            ),
            ("al@127.0.0.1:1080", None),
            ("", None),
        ] {
            assert_eq!(Gateway::read(text), gateway, "{text}");
        }
    }

    #[test]
    fn only_connections_to_other_hosts_are_captured() {
        let gateway = "192.0.2.1:1080".parse().unwrap();
        for (target, captured) in [
            ("203.0.113.7:80", true),
            ("[2001:db8::1]:80", true),
            ("[::ffff:203.0.113.7]:80", true),
            ("192.0.2.1:80", true),
            ("192.0.2.1:1080", false),
            ("[::ffff:192.0.2.1]:1080", false),
            ("127.0.0.1:80", false),
            ("127.9.9.9:80", false),
            ("[::1]:80", false),
            ("[::ffff:127.0.0.1]:80", false),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
        ] {
            let target = target.parse().unwrap();
            assert_eq!(is_captured(target, Some(gateway)), captured, "{target}");
            let without = captured || target.port() == 1080;
            assert_eq!(is_captured(target, None), without, "{target}");
        }
    }
}
