//! Checked description of a lab: hosts, routers and links.
//!
//! [`Description::parse`] reads TOML, and [`Description::new`] checks it. Every name exists, every
//! host can reach every other, and every number is in range. A lab that is built from a description
//! therefore fails only for reasons of its host.

use std::net::Ipv4Addr;
use std::time::Duration;

use lighthaul_base::config_fault::fault_in;
use lighthaul_base::{Rate, Size};
use lighthaul_sim::{BurstLoss, LinkConfig, Policer, Reorder};

use crate::error::{Error, Result};
use crate::quantity::{chance_ppb, duration};
use crate::settings::{DirectionSettings, LinkSettings, Settings};

/// Valid description of a lab.
#[derive(Clone, Debug)]
pub struct Description {
    /// Names of the nodes: first the hosts, in the order of their addresses, then the routers.
    pub(crate) names: Vec<String>,
    /// Number of hosts.
    pub(crate) host_count: usize,
    /// Links between nodes.
    pub(crate) links: Vec<LinkDescription>,
    /// Seed of all random choices.
    pub(crate) seed: u64,
}

/// Link between two nodes, given as indices of their names.
#[derive(Clone, Debug)]
pub(crate) struct LinkDescription {
    pub(crate) between: [usize; 2],
    pub(crate) mtu: u32,
    pub(crate) spares_tcp: bool,
    pub(crate) kind: LinkKind,
}

/// Implementation of a link.
#[derive(Clone, Debug)]
pub(crate) enum LinkKind {
    /// Emulated link, with a machine for each direction.
    Wan(Box<[LinkConfig; 2]>),
    /// Pair of virtual Ethernet devices (veth). With `segment`, trains are cut before they cross.
    Veth { segment: bool },
}

impl Description {
    /// Parses a TOML description.
    pub fn parse(text: &str) -> Result<Self> {
        let settings: Settings = toml::from_str(text)
            .map_err(|why| Error::Misuse(fault_in(text, why.span(), why.message())))?;
        Self::new(&settings)
    }

    /// Checks settings.
    pub fn new(settings: &Settings) -> Result<Self> {
        let named = settings.host.iter().chain(&settings.router);
        let names: Vec<String> = named.map(|n| n.name.clone()).collect();
        for (i, name) in names.iter().enumerate() {
            check_name(name)?;
            if names[..i].contains(name) {
                return Err(Error::Misuse(format!("the name {name:?} is used twice")));
            }
        }
        let host_count = settings.host.len();
        if host_count == 0 || host_count > HOSTS_MAX {
            return Err(Error::Misuse(format!(
                "a lab needs 1 to {HOSTS_MAX} hosts, not {host_count}"
            )));
        }
        let links = settings
            .link
            .iter()
            .map(|l| LinkDescription::new(l, &names, host_count));
        let links = links.collect::<Result<_>>()?;
        Ok(Self {
            names,
            host_count,
            links,
            seed: settings.seed.unwrap_or(1),
        })
    }

    /// Returns the hosts' names, in the order of their addresses.
    pub fn hosts(&self) -> &[String] {
        &self.names[..self.host_count]
    }
}

/// Returns the address of host `host`.
pub(crate) fn address(host: usize) -> Ipv4Addr {
    let [high, low] = (host as u16 + 1).to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

impl LinkDescription {
    fn new(link: &LinkSettings, names: &[String], host_count: usize) -> Result<Self> {
        let [source, target] = link.between.as_slice() else {
            return Err(Error::Misuse(format!(
                "a link needs two ends, as in between = [\"a\", \"b\"], not {:?}",
                link.between
            )));
        };
        let label = format!("link {source}-{target}");
        let wrong = |why: String| Error::Misuse(format!("{label}: {why}"));
        let find = |name: &String| {
            let place = names.iter().position(|n| n == name);
            place.ok_or_else(|| wrong(format!("there is no host or router named {name:?}")))
        };
        let between = [find(source)?, find(target)?];
        if between[0] == between[1] {
            return Err(wrong("both ends are the same".to_owned()));
        }
        let mut words = [&link.both, &link.forward, &link.back]
            .into_iter()
            .flat_map(|d| d.unknown.keys());
        if let Some(word) = words.next() {
            return Err(wrong(format!("unknown setting {word:?}")));
        }
        let mtu = link.mtu.unwrap_or(1500);
        if !(576..=65_535).contains(&mtu) {
            return Err(wrong(format!("mtu must be from 576 to 65535, not {mtu}")));
        }
        let kind = match link.kind.as_deref().unwrap_or("wan") {
            "wan" => wan(link, mtu).map_err(wrong)?,
            "veth" if between.iter().any(|&end| end >= host_count) => {
                return Err(wrong("a veth must join two hosts, not a router".to_owned()));
            }
            "veth" => veth(link).map_err(wrong)?,
            other => return Err(wrong(format!("kind must be wan or veth, not {other:?}"))),
        };
        let spares_tcp = link.spare_tcp.unwrap_or(false);
        Ok(Self {
            between,
            mtu,
            spares_tcp,
            kind,
        })
    }
}

fn veth(link: &LinkSettings) -> std::result::Result<LinkKind, String> {
    let given = [&link.both, &link.forward, &link.back].map(|d| format!("{d:?}"));
    let nothing = format!("{:?}", DirectionSettings::default());
    if link.rtt.is_some() || link.spare_tcp.is_some() || given.iter().any(|d| *d != nothing) {
        return Err("a veth has only the settings mtu and segment".to_owned());
    }
    Ok(LinkKind::Veth {
        segment: link.segment.unwrap_or(false),
    })
}

fn wan(link: &LinkSettings, mtu: u32) -> std::result::Result<LinkKind, String> {
    if link.segment.is_some() {
        return Err("only a link of kind veth has the setting segment".to_owned());
    }
    let mut both = link.both.clone();
    if let Some(rtt) = &link.rtt {
        if both.delay.is_some() {
            return Err("give either rtt or delay, not both".to_owned());
        }
        both.delay = Some(format!("{}ns", duration(rtt)?.as_nanos() / 2));
    }
    let directions = [link.forward.or(&both), link.back.or(&both)];
    let [there, back] = [delay(&directions[0])?, delay(&directions[1])?];
    let rtt = there + back;
    let directions = [
        direction(&directions[0], there, rtt, mtu)?,
        direction(&directions[1], back, rtt, mtu)?,
    ];
    Ok(LinkKind::Wan(Box::new(directions)))
}

fn delay(settings: &DirectionSettings) -> std::result::Result<Duration, String> {
    settings
        .delay
        .as_deref()
        .map_or(Ok(Duration::ZERO), duration)
}

fn direction(
    settings: &DirectionSettings,
    delay: Duration,
    rtt: Duration,
    mtu: u32,
) -> std::result::Result<LinkConfig, String> {
    let rate = match settings.rate.as_deref() {
        None | Some("unlimited") => None,
        Some(text) => Some(text.parse::<Rate>().map_err(|e| format!("{text:?}: {e}"))?),
    };
    let queue_bytes_max = match (&settings.queue, rate) {
        (Some(text), _) => {
            text.parse::<Size>()
                .map_err(|e| format!("{text:?}: {e}"))?
                .0
        }
        (None, Some(rate)) => rate.bytes_in(rtt).max(QUEUE_BYTES_MIN),
        (None, None) => u64::MAX,
    };
    if queue_bytes_max < u64::from(mtu) {
        return Err(format!(
            "a queue of {queue_bytes_max} bytes is shorter than the MTU of {mtu}"
        ));
    }
    let chance = |text: &Option<String>| text.as_deref().map_or(Ok(0), chance_ppb);
    Ok(LinkConfig {
        rate,
        delay,
        queue_bytes_max,
        loss_ppb: chance(&settings.loss)?,
        burst: settings.burst_loss.as_deref().map(burst).transpose()?,
        reorder: settings.reorder.as_deref().map(reorder).transpose()?,
        duplicate_ppb: chance(&settings.duplicate)?,
        policer: settings.policer.as_deref().map(policer).transpose()?,
    })
}

fn policer(text: &str) -> std::result::Result<Policer, String> {
    let wrong = || format!("invalid policer {text:?}: write it as 200Mb/s x 1MB");
    let (rate, burst) = text.split_once('x').ok_or_else(wrong)?;
    let burst: Size = burst.trim().parse().map_err(|_| wrong())?;
    Ok(Policer {
        rate: rate.trim().parse().map_err(|_| wrong())?,
        burst_bytes: burst.0,
    })
}

fn burst(text: &str) -> std::result::Result<BurstLoss, String> {
    let wrong = || format!("invalid burst loss {text:?}: write it as 0.1% x 20");
    let (chance, mean) = text.split_once('x').ok_or_else(wrong)?;
    let len_mean = mean.trim().parse().map_err(|_| wrong())?;
    Ok(BurstLoss {
        enter_ppb: chance_ppb(chance)?,
        len_mean,
    })
}

fn reorder(text: &str) -> std::result::Result<Reorder, String> {
    let wrong = || format!("invalid reordering {text:?}: write it as 1% by 2ms");
    let (chance, extra) = text.split_once("by").ok_or_else(wrong)?;
    Ok(Reorder {
        ppb: chance_ppb(chance)?,
        extra: duration(extra)?,
    })
}

fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if first && name.len() <= 63 && name.chars().all(good) && name != "localhost" {
        return Ok(());
    }
    Err(Error::Misuse(format!(
        "invalid host name {name:?}: use a letter, then letters, digits and hyphens, at most 63 in all"
    )))
}

const HOSTS_MAX: usize = 250;
const QUEUE_BYTES_MIN: u64 = 1_000_000;
