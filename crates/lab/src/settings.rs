//! A lab as people write it: TOML, or flags for the common case of two hosts and one link.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A whole description, as its TOML file has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where all chance descends from; 1 if not given.
    pub seed: Option<u64>,
    /// Hosts, in the order of their addresses.
    #[serde(default)]
    pub host: Vec<Named>,
    /// Places where links meet and no command runs.
    #[serde(default)]
    pub router: Vec<Named>,
    /// What joins two of them.
    #[serde(default)]
    pub link: Vec<LinkSettings>,
}

/// A host or a router.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Its name.
    pub name: String,
}

/// One link, both directions of it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LinkSettings {
    /// The two that it joins; `forward` is from the first to the second.
    #[serde(default)]
    pub between: Vec<String>,
    /// `wan` (emulated, the default) or `veth` (a plain pair, nothing emulated).
    pub kind: Option<String>,
    /// The longest IP packet; 1500 if not given.
    pub mtu: Option<u32>,
    /// Of a veth: cut trains before they cross and coalesce them at the receiver, as an honest NIC does.
    pub segment: Option<bool>,
    /// Whether loss spares TCP: the paths of papers whose feedback is never lost.
    pub spare_tcp: Option<bool>,
    /// Delay there and back; the half of it is `delay`.
    pub rtt: Option<String>,
    /// What both directions have.
    #[serde(flatten)]
    pub both: DirectionSettings,
    /// What the direction from first to second has of its own.
    #[serde(default)]
    pub forward: DirectionSettings,
    /// What the direction from second to first has of its own.
    #[serde(default)]
    pub back: DirectionSettings,
}

/// One direction of a link; what is not given does not limit or harm.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DirectionSettings {
    /// Bits a second, as in `1Gb/s`.
    pub rate: Option<String>,
    /// One-way delay, as in `50ms`.
    pub delay: Option<String>,
    /// Bytes that may wait, as in `12.5MB`; by default what rate and RTT multiply to, at least 1 MB.
    pub queue: Option<String>,
    /// Chance of a packet to be lost, as in `0.01%`.
    pub loss: Option<String>,
    /// Chance of a burst of losses to begin and its mean length, as in `0.1% x 20`.
    pub burst_loss: Option<String>,
    /// Chance of a packet to be late and how late, as in `1% by 2ms`.
    pub reorder: Option<String>,
    /// Chance of a packet to come twice, as in `0.1%`.
    pub duplicate: Option<String>,
    /// Words that mean nothing here; any is an error.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, toml::Value>,
}

impl Settings {
    /// Two hosts, `a` and `b`, and one link between them.
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
    /// These, and what `others` say where these say nothing.
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
            unknown: self.unknown.clone(),
        }
    }
}
