//! Daemons to probe: ends of known paths, and daemons that the user names.
//!
//! A known path has the key and the address of a host; the list of known hosts has the name and the port of a daemon
//! with that key. Hosts that only ssh reaches are not in that list, and are not probed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use lighthaul_daemon::known_hosts;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::Error;
use lighthaul_session::known_path::{KnownPath, PathEnds, unix_seconds};

use crate::dial::name;
use crate::error::Fault;
use crate::known_paths::KnownPaths;
use crate::paths;
use crate::place::{PORT, Place};

/// Daemon to probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeTarget {
    /// Name in the list of known hosts.
    pub name: String,
    /// Name or address of the host.
    pub host: String,
    /// Port of the daemon.
    pub port: u16,
}

impl ProbeTarget {
    /// Returns the daemon that a user names as HOST, HOST:PORT or a URL.
    pub fn named(text: &str) -> Result<Self, Error> {
        let url = if text.starts_with("lh://") {
            text.to_owned()
        } else {
            format!("lh://{text}/")
        };
        let Place::Daemon { host, port, .. } = Place::parse(&url)? else {
            return Err(Fault::NotRemote.into());
        };
        Ok(Self {
            name: name(&host, port),
            host,
            port,
        })
    }
}

/// Returns the daemons on paths that this user's copies have used in the last day. Lists that cannot be read are empty.
pub fn known() -> Vec<ProbeTarget> {
    let hosts = known_hosts::listed(&paths::known_hosts()).unwrap_or_default();
    join(&hosts, &KnownPaths::of_user().all(), unix_seconds())
}

fn join(
    hosts: &[(String, Fingerprint)],
    paths: &BTreeMap<PathEnds, KnownPath>,
    now: u64,
) -> Vec<ProbeTarget> {
    let used = paths.iter().filter(|(_, path)| {
        let age = now.checked_sub(path.at);
        age.is_some_and(|age| age <= AGE_MAX.as_secs())
    });
    let mut targets: Vec<ProbeTarget> = used
        .flat_map(|(ends, _)| {
            let same = hosts.iter().filter(|(_, key)| *key == ends.key);
            same.filter_map(|(name, _)| target(name, ends.address))
        })
        .collect();
    targets.sort();
    targets.dedup();
    targets
}

/// Returns the daemon of a name, HOST or HOST:PORT. An IPv6 address has colons itself, so the address of the path
/// tells where it ends.
fn target(name: &str, address: IpAddr) -> Option<ProbeTarget> {
    let text = address.to_string();
    let (host, port) = match name.strip_prefix(&text) {
        Some("") => (text.as_str(), PORT),
        Some(rest) if rest.starts_with(':') => (text.as_str(), rest[1..].parse().ok()?),
        Some(_) | None => match name.split_once(':') {
            None => (name, PORT),
            Some((host, port)) => (host, port.parse().ok()?),
        },
    };
    (port > 0).then(|| ProbeTarget {
        name: name.to_owned(),
        host: host.to_owned(),
        port,
    })
}

/// Age at which a path that no copy uses is no longer probed.
const AGE_MAX: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use lighthaul_base::Rate;

    use super::*;

    fn key(octet: u8) -> Fingerprint {
        Fingerprint::from_octets([octet; 32])
    }

    fn ends(octet: u8, address: &str) -> PathEnds {
        PathEnds {
            key: key(octet),
            address: address.parse().unwrap(),
            local: "192.0.2.1".parse().unwrap(),
        }
    }

    fn used(at: u64) -> KnownPath {
        KnownPath {
            at,
            ..KnownPath::now(Rate::from_mbps(1), 0)
        }
    }

    #[test]
    fn known_hosts_of_recent_paths_are_probed_once() {
        let hosts = [
            ("far".to_owned(), key(1)),
            ("far:4811".to_owned(), key(1)),
            ("old".to_owned(), key(2)),
            ("idle".to_owned(), key(3)),
        ];
        let now = 1_000_000;
        let paths = [
            (ends(1, "192.0.2.7"), used(now - 10)),
            (ends(1, "192.0.2.8"), used(now - 20)),
            (ends(2, "192.0.2.9"), used(now - 86_401)),
            // a clock was wrong
            (ends(3, "192.0.2.10"), used(now + 5)),
            // only ssh leads there
            (ends(4, "192.0.2.11"), used(now)),
        ];
        let found = join(&hosts, &paths.into(), now);
        let found: Vec<_> = found.iter().map(|to| (to.host.as_str(), to.port)).collect();
        assert_eq!(found, [("far", PORT), ("far", 4811)]);
        let last = [(ends(2, "192.0.2.9"), used(now - 86_400))];
        assert_eq!(join(&hosts, &last.into(), now).len(), 1);
    }

    #[test]
    fn names_with_ports_and_colons_are_parsed() {
        let found = |name: &str, address: &str| {
            target(name, address.parse().unwrap()).map(|to| (to.host, to.port))
        };
        let is = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(found("far", "192.0.2.7"), is("far", PORT));
        assert_eq!(found("far:99", "192.0.2.7"), is("far", 99));
        assert_eq!(found("::1", "::1"), is("::1", PORT));
        assert_eq!(found("::1:4811", "::1"), is("::1", 4811));
        assert_eq!(found("192.0.2.7:5", "192.0.2.7"), is("192.0.2.7", 5));
        assert_eq!(found("192.0.2.77", "192.0.2.7"), is("192.0.2.77", PORT));
        assert_eq!(found("far:x", "192.0.2.7"), None);
        assert_eq!(found("far:0", "192.0.2.7"), None);
    }

    #[test]
    fn user_names_a_daemon_in_each_form() {
        for (text, name, port) in [
            ("far", "far", PORT),
            ("lh://far:99/", "far:99", 99),
            ("[::1]:99", "::1:99", 99),
        ] {
            let target = ProbeTarget::named(text).unwrap();
            assert_eq!((target.name.as_str(), target.port), (name, port));
        }
        assert!(ProbeTarget::named("far:0").is_err());
    }
}
