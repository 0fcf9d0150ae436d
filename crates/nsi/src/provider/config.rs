//! Settings of a provider, as TOML.
//!
//! ```toml
//! nsa = "urn:ogf:network:example.net:2026:nsa:lighthaul"
//! network = "urn:ogf:network:example.net:2026:topology"
//! name = "Example network"                      # [default: the URN]
//! url = "https://scheduler.example.net:4811"    # for the discovery document [default: none]
//!
//! [[stp]]
//! port = "chicago"          # part of the URN after `network`
//! node = "chicago"          # node of the topology [default: port]
//! vlans = "1780-1790,1800"  # labels of which each circuit gets one [default: no labels]
//! interface = "eth1"        # interface at which the circuit starts [default: no device]
//! packets = "udp 10.0.0.2"  # packets that the circuit carries [default: all]
//! alias = "urn:ogf:network:example.org:2026:topology:uplink"  # port of the neighbor
//!
//! [[requester]]
//! nsa = "urn:ogf:network:example.org:2026:nsa:aggregator"
//! identity = "aggregator"   # name of its token
//! reply_to = ["https://aggregator.example.org/nsi/"]  # beginnings of permitted URLs
//! ```

use std::collections::BTreeSet;

use serde::Deserialize;

use super::stp::{Labels, Stp};
use crate::message::name::ETHERNET_SERVICE;

/// Settings of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// URN of the agent.
    pub nsa: String,
    /// URN of the network.
    pub network: String,
    /// Name of the network.
    pub name: String,
    /// URL of the scheduler, for the discovery document.
    pub url: Option<String>,
    /// Service type of all circuits.
    pub service_type: String,
    /// Service termination points.
    pub stps: Vec<Stp>,
    /// Requesters that are permitted.
    pub requesters: Vec<Requester>,
}

/// Permitted requester.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requester {
    /// URN of the agent.
    pub nsa: String,
    /// Name that the requester authenticates with, and that owns its reservations.
    pub identity: String,
    /// Beginnings of the URLs to which confirmations may go.
    pub reply_to: Vec<String>,
}

/// Fault of the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is not TOML, or has invalid settings.
    #[error("the settings of NSI cannot be read: {0}")]
    Toml(String),
    /// A name is not a URN.
    #[error("{0:?} is not a URN: write it as in urn:ogf:network:example.net:2026:nsa:name")]
    Urn(String),
    /// Two entries have the same name.
    #[error("{0} is listed twice in the settings of NSI: remove one of the entries")]
    Twice(String),
    /// The beginning of a URL does not name a server completely.
    #[error(
        "{0:?} permits too much: write a URL with a server and a path, as in https://host/nsi/"
    )]
    Prefix(String),
    /// Labels are not numbers of VLANs.
    #[error("{0:?} are no VLANs: write numbers from 1 to 4094 and ranges, as in 1780-1790,1800")]
    Labels(String),
    /// A list is empty.
    #[error("the settings of NSI have no {0}: add at least one")]
    Empty(&'static str),
}

impl Config {
    /// Parses and checks the settings.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: File =
            toml::from_str(text).map_err(|why| ConfigError::Toml(why.message().to_owned()))?;
        let File {
            nsa,
            network,
            name,
            url,
            service_type,
            stp,
            requester,
        } = file;
        let stps = stp.into_iter().map(|stp| stp.stp(&network));
        let config = Self {
            name: name.unwrap_or_else(|| network.clone()),
            nsa,
            url: url.map(|url| url.trim_end_matches('/').to_owned()),
            service_type: service_type.unwrap_or_else(|| ETHERNET_SERVICE.to_owned()),
            stps: stps.collect::<Result<_, _>>()?,
            requesters: requester,
            network,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let requesters = self.requesters.iter().map(|requester| &requester.nsa);
        let mut seen = BTreeSet::new();
        let stps = self.stps.iter().map(|stp| &stp.id);
        for urn in [&self.nsa, &self.network]
            .into_iter()
            .chain(stps)
            .chain(requesters)
        {
            let is_urn = urn.starts_with("urn:") && urn.bytes().all(|b| b.is_ascii_graphic());
            if !is_urn || urn.contains('?') {
                return Err(ConfigError::Urn(urn.clone()));
            }
            if !seen.insert(urn) {
                return Err(ConfigError::Twice(urn.clone()));
            }
        }
        let prefixes = self.requesters.iter().flat_map(|one| &one.reply_to);
        for prefix in prefixes {
            let rest = prefix.strip_prefix("https://");
            let rest = rest.or_else(|| prefix.strip_prefix("http://"));
            let host = rest.and_then(|rest| rest.split_once('/'));
            let is_host = |(host, _): (&str, &str)| !host.is_empty() && !host.contains('@');
            if !host.is_some_and(is_host) || !is_plain(prefix) {
                return Err(ConfigError::Prefix(prefix.clone()));
            }
        }
        if self.stps.is_empty() {
            return Err(ConfigError::Empty("stp"));
        }
        if self.requesters.is_empty() {
            return Err(ConfigError::Empty("requester"));
        }
        Ok(())
    }
}

impl Requester {
    /// Returns true if messages may go to a URL.
    pub fn permits(&self, url: &str) -> bool {
        let mut prefixes = self.reply_to.iter();
        is_plain(url)
            && url.len() <= URL_MAX
            && prefixes.any(|prefix| url.starts_with(prefix.as_str()))
    }
}

/// Returns true if all servers read the path of a URL in the same way. They differ for an escaped or divided `..`.
fn is_plain(url: &str) -> bool {
    let path = url.split_once('?').map_or(url, |(path, _)| path);
    url.bytes()
        .all(|b| b.is_ascii_graphic() && !b"\\%;#".contains(&b))
        && !path.split('/').any(|part| matches!(part, "." | ".."))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    nsa: String,
    network: String,
    name: Option<String>,
    url: Option<String>,
    service_type: Option<String>,
    #[serde(default)]
    stp: Vec<StpTable>,
    #[serde(default)]
    requester: Vec<Requester>,
}

/// Service termination point as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StpTable {
    port: String,
    node: Option<String>,
    vlans: Option<String>,
    interface: Option<String>,
    packets: Option<String>,
    alias: Option<String>,
}

impl StpTable {
    fn stp(self, network: &str) -> Result<Stp, ConfigError> {
        let labels = self.vlans.as_deref().map(str::parse::<Labels>).transpose();
        let wrong = || ConfigError::Labels(self.vlans.clone().unwrap_or_default());
        Ok(Stp {
            id: format!("{network}:{}", self.port),
            labels: labels.map_err(|_| wrong())?,
            node: self.node.unwrap_or_else(|| self.port.clone()),
            port: self.port,
            interface: self.interface,
            packets: self.packets,
            alias: self.alias,
        })
    }
}

/// Maximum length of a URL.
const URL_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "nsa = 'urn:p'\nnetwork = 'urn:n'\n[[stp]]\nport = 'a'\nvlans = '7,10-12'\n\
        [[requester]]\nnsa = 'urn:r'\nidentity = 'agg'\nreply_to = ['https://r.example/nsi/']\n";

    #[test]
    fn settings_have_defaults() {
        let config = Config::parse(GOOD).unwrap();
        assert_eq!(
            (config.stps[0].id.as_str(), config.stps[0].node.as_str()),
            ("urn:n:a", "a")
        );
        assert_eq!(config.name, "urn:n");
        assert_eq!(
            (config.url, config.service_type.as_str()),
            (None, ETHERNET_SERVICE)
        );
    }

    #[test]
    fn settings_replace_defaults() {
        let text = GOOD.replace(
            "network",
            "name = 'N'\nurl = 'https://s.example/'\nservice_type = 'urn:s'\nnetwork",
        );
        let text = text.replace("port = 'a'", "port = 'a'\nnode = 'b'");
        let config = Config::parse(&text).unwrap();
        assert_eq!(config.name, "N");
        assert_eq!(config.url.as_deref(), Some("https://s.example"));
        assert_eq!(config.service_type, "urn:s");
        assert_eq!(
            (config.stps[0].port.as_str(), config.stps[0].node.as_str()),
            ("a", "b")
        );
    }

    #[test]
    fn settings_without_points_or_requesters_are_refused() {
        let place = |name: &str| GOOD.find(name).unwrap();
        let (stp, requester) = (place("[[stp]]"), place("[[requester]]"));
        let without = [
            (format!("{}{}", &GOOD[..stp], &GOOD[requester..]), "stp"),
            (GOOD[..requester].to_owned(), "requester"),
        ];
        for (text, what) in without {
            assert_eq!(Config::parse(&text), Err(ConfigError::Empty(what)));
        }
    }

    #[test]
    fn faulty_settings_are_refused() {
        for (from, to, says) in [
            ("'urn:p'", "'p'", "is not a URN"),
            ("'urn:p'", "'urn:p?x'", "is not a URN"),
            ("'urn:p'", "'urn:p x'", "is not a URN"),
            ("port = 'a'", "port = 'a?vlan=7'", "is not a URN"),
            ("network = 'urn:n'", "network = 'n'", "is not a URN"),
            ("'urn:r'", "'urn:p'", "listed twice"),
            ("r.example/nsi/", "r.example", "permits too much"),
            ("https://r.example/nsi/", "https://", "permits too much"),
            (
                "https://r.example/nsi/",
                "ftp://r.example/",
                "permits too much",
            ),
            (
                "https://r.example/nsi/",
                "https:///nsi/",
                "permits too much",
            ),
            (
                "https://r.example/nsi/",
                "https://a@r.example/nsi/",
                "permits too much",
            ),
            (
                "https://r.example/nsi/",
                "https://r.example/../",
                "permits too much",
            ),
            ("7,10-12", "0", "are no VLANs"),
            ("7,10-12", "12-10", "are no VLANs"),
            ("port", "door", "unknown field"),
        ] {
            let why = Config::parse(&GOOD.replace(from, to))
                .unwrap_err()
                .to_string();
            assert!(why.contains(says), "{to}: {why}");
        }
    }

    #[test]
    fn replies_go_only_to_listed_places() {
        let requester = &Config::parse(GOOD).unwrap().requesters[0];
        for url in [
            "https://r.example/nsi/callback?x=1",
            "https://r.example/nsi/callback?to=a/../b",
            "https://r.example/nsi/a..b/...",
        ] {
            assert!(requester.permits(url), "{url}");
        }
        for url in [
            "https://r.example.evil/nsi/",
            "http://r.example/nsi/x",
            "https://r.example/other",
            "https://r.example/nsi/../admin",
            "https://r.example/nsi/..?x",
            "https://r.example/nsi/..#x",
            "https://r.example/nsi/..;/admin",
            "https://r.example/nsi/..;x=1/admin",
            "https://r.example/nsi/%2e%2e/admin",
            "https://r.example/nsi/.%2E",
            "https://r.example/nsi/./x",
            "https://r.example/nsi/.",
            "https://r.example/nsi/%00",
            "https://r.example/nsi/ x",
            "https://x@r.example/nsi/",
        ] {
            assert!(!requester.permits(url), "{url}");
        }
        let long = |length: usize| format!("{:x<length$}", requester.reply_to[0]);
        assert!(requester.permits(&long(2048)));
        assert!(!requester.permits(&long(2049)));
    }
}
