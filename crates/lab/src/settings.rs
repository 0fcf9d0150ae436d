//! Settings of a lab: written as TOML, or given as flags for two hosts and one link.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Keys of the TOML file of a lab.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Seed of all random choices; 1 by default.
    pub seed: Option<u64>,
    /// Hosts, in the order of their addresses.
    #[serde(default)]
    pub host: Vec<Named>,
    /// Routers: nodes that forward packets and run no commands.
    #[serde(default)]
    pub router: Vec<Named>,
    /// Links between nodes.
    #[serde(default)]
    pub link: Vec<LinkSettings>,
}

/// Host or router.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Name of the node.
    pub name: String,
}

/// Link in both directions.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LinkSettings {
    /// Names of the two ends of the link. The direction `forward` is from the first to the second.
    #[serde(default)]
    pub between: Vec<String>,
    /// Kind: `wan` (emulated, the default) or `veth` (a veth pair without emulation).
    pub kind: Option<String>,
    /// Longest IP packet in bytes; 1500 by default.
    pub mtu: Option<u32>,
    /// For a veth: segment trains before they cross and coalesce them at the receiver, like a real
    /// network card.
    pub segment: Option<bool>,
    /// True if random loss does not affect TCP, as for papers whose feedback is never lost.
    pub spare_tcp: Option<bool>,
    /// Round-trip time, twice the `delay`.
    pub rtt: Option<String>,
    /// Settings of both directions.
    #[serde(flatten)]
    pub both: DirectionSettings,
    /// Settings of the direction from the first end to the second; they override the settings of both directions.
    #[serde(default)]
    pub forward: DirectionSettings,
    /// Settings of the direction from the second end to the first; they override the settings of both directions.
    #[serde(default)]
    pub back: DirectionSettings,
}

/// Settings of one direction. An absent setting means no limit and no impairment.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DirectionSettings {
    /// Rate, such as `1Gb/s`.
    pub rate: Option<String>,
    /// One-way delay, such as `50ms`.
    pub delay: Option<String>,
    /// Size of the queue, such as `12.5MB`. By default the product of rate and RTT, at least 1 MB.
    pub queue: Option<String>,
    /// Probability that a packet is lost, such as `0.01%`.
    pub loss: Option<String>,
    /// Probability that a burst of losses starts, and its mean length, such as `0.1% x 20`.
    pub burst_loss: Option<String>,
    /// Probability that a packet is delayed, and the extra delay, such as `1% by 2ms`.
    pub reorder: Option<String>,
    /// Probability that a packet is duplicated, such as `0.1%`.
    pub duplicate: Option<String>,
    /// Rate of a policer in front of the queue, and the bytes that pass it at once, such as `200Mb/s x
    /// 1MB`.
    pub policer: Option<String>,
    /// Unknown settings, each of which is an error.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, toml::Value>,
}

impl Settings {
    /// Creates the settings of two hosts, `a` and `b`, with one link.
    pub fn pair(mut link: LinkSettings, seed: Option<u64>) -> Self {
        let named = |name: &str| Named {
            name: name.to_owned(),
        };
        link.between = vec!["a".to_owned(), "b".to_owned()];
        Self {
            seed,
            host: vec![named("a"), named("b")],
            router: Vec::new(),
            link: vec![link],
        }
    }
}

impl DirectionSettings {
    /// Returns the settings; absent settings are taken from `others`.
    pub(crate) fn or(&self, others: &Self) -> Self {
        let pick =
            |own: &Option<String>, other: &Option<String>| own.as_ref().or(other.as_ref()).cloned();
        Self {
            rate: pick(&self.rate, &others.rate),
            delay: pick(&self.delay, &others.delay),
            queue: pick(&self.queue, &others.queue),
            loss: pick(&self.loss, &others.loss),
            burst_loss: pick(&self.burst_loss, &others.burst_loss),
            reorder: pick(&self.reorder, &others.reorder),
            duplicate: pick(&self.duplicate, &others.duplicate),
            policer: pick(&self.policer, &others.policer),
            unknown: self.unknown.clone(),
        }
    }
}
