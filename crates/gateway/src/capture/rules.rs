//! What has the kernel hand over connections that are meant for others: TPROXY for those that arrive, and
//! redirection for those of programs on this host.
//!
//! All of it carries a mark of ours: the table of nftables its name, rules and routes the number of our protocol. So what
//! a gateway that was killed has left is found and removed by the next one, whatever that one was told to capture. Until
//! then, what arrives goes its ordinary way, since nobody listens; what programs of this host send is refused.

use std::path::Path;

use crate::capture::script::{CLEAR, Way, script};
use crate::capture::transparent::Listeners;
use crate::kernel::claim::Claim;
use crate::kernel::error::Error;
use crate::kernel::tools::{IP, NFT};
use crate::ports::Ports;
use crate::prefix::Prefix;

/// What is to be captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transparent {
    /// Whether connections of other hosts are captured that come through this one.
    pub arriving: bool,
    /// The interface where they arrive; any if there is nothing here.
    pub device: Option<String>,
    /// The users of this host whose connections are captured, by number.
    pub users: Vec<u32>,
    /// Where captured connections go to; anywhere if there is nothing here.
    pub prefixes: Vec<Prefix>,
    /// The ports that they go to; any if there is nothing here.
    pub ports: Vec<Ports>,
    /// What captured packets are marked with.
    pub mark: u32,
    /// The routing table that keeps them on this host.
    pub table: u32,
}

impl Default for Transparent {
    fn default() -> Self {
        Self {
            arriving: true,
            device: None,
            users: Vec::new(),
            prefixes: Vec::new(),
            ports: Vec::new(),
            mark: MARK,
            table: MARK,
        }
    }
}

impl Transparent {
    fn check(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Misuse(text));
        if !self.arriving && self.users.is_empty() {
            return wrong(
                "nothing is to be captured: say what arrives, or whose programs".to_owned(),
            );
        }
        if let Some(device) = self.device.as_ref().filter(|device| !is_device(device)) {
            return wrong(format!(
                "{device:?} is no name of an interface: `ip link` lists them"
            ));
        }
        let own = rustix::process::geteuid().as_raw();
        if self.users.contains(&own) {
            return wrong(format!(
                "the gateway runs as user {own} itself, and would capture what it sends: run it as another user"
            ));
        }
        if self.mark == 0 || matches!(self.table, 0 | 253..=255) {
            return wrong(
                "a mark is not 0, and a table not one of the system's (0, 253 to 255)".to_owned(),
            );
        }
        Ok(())
    }
}

/// Rules that are in force as long as this lives, in the network namespace of the thread that made them; there it has to
/// be dropped, too.
#[derive(Debug)]
pub struct Rules {
    is_gone: bool,
    _claim: Claim,
}

impl Rules {
    /// Has the kernel hand over connections to `listeners`; what an earlier gateway has left is removed.
    pub fn install(capture: &Transparent, listeners: &Listeners) -> Result<Self, Error> {
        capture.check()?;
        let ways = listeners.ways()?;
        let rules = Self {
            is_gone: false,
            _claim: Claim::make(CLAIM, "captures connections")?,
        };
        clear()?;
        if capture.arriving {
            for way in &ways {
                keep_here(capture, *way)?;
            }
        }
        NFT.run("capture connections", &["-f", "-"], &script(capture, &ways))?;
        Ok(rules)
    }

    /// Removes them, and says what is left if that fails; dropping them does the same and says nothing.
    pub fn remove(mut self) -> Result<(), Error> {
        self.is_gone = true;
        clear()
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        if !self.is_gone {
            clear().ok();
        }
    }
}

/// Sends marked packets to this host, whoever they are for.
fn keep_here(capture: &Transparent, way: Way) -> Result<(), Error> {
    let what = "keep captured packets on this host";
    let family = if way.is_v6 { "-6" } else { "-4" };
    let (mark, table) = (capture.mark.to_string(), capture.table.to_string());
    let route = [
        "local", "default", "dev", "lo", "table", &table, "proto", PROTOCOL,
    ];
    IP.run(what, &[&[family, "route", "add"][..], &route].concat(), "")?;
    let rule = ["fwmark", &mark, "lookup", &table, "protocol", PROTOCOL];
    IP.run(what, &[&[family, "rule", "add"][..], &rule].concat(), "")
}

/// Removes everything of ours, whoever left it; first what sends packets into the rest. All is tried.
fn clear() -> Result<(), Error> {
    let what = "remove what captures connections";
    let mut outcome = NFT.run(what, &["-f", "-"], CLEAR);
    for family in ["-4", "-6"] {
        if family == "-6" && !has_v6() {
            continue;
        }
        for words in [
            [family, "rule", "flush", "protocol", PROTOCOL].as_slice(),
            &[family, "route", "flush", "table", "all", "proto", PROTOCOL],
        ] {
            let removed = IP.run(what, words, "");
            outcome = outcome.and(removed);
        }
    }
    outcome
}

/// Whether the kernel knows IPv6.
fn has_v6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

/// A name that can stand in a rule, and that an interface can have.
fn is_device(name: &str) -> bool {
    let is_fine = |octet: u8| octet.is_ascii_alphanumeric() || b"._-@".contains(&octet);
    (1..=DEVICE_MAX).contains(&name.len()) && name.bytes().all(is_fine)
}

/// "lh": the mark, and the number of the table.
const MARK: u32 = 0x6c68;
/// "l": the number of those who made a rule or a route, as `rt_protos` of iproute2 has them.
const PROTOCOL: &str = "108";
const CLAIM: &str = "lighthaul-transparent";
/// `IFNAMSIZ` without its end.
const DEVICE_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(capture: &Transparent) -> String {
        capture.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_captured_is_refused() {
        let base = Transparent::default;
        let own = rustix::process::geteuid().as_raw();
        for (capture, word) in [
            (
                Transparent {
                    arriving: false,
                    ..base()
                },
                "nothing is to be captured",
            ),
            (
                Transparent {
                    device: Some("a\"; drop".to_owned()),
                    ..base()
                },
                "no name of an interface",
            ),
            (
                Transparent {
                    device: Some(String::new()),
                    ..base()
                },
                "no name of an interface",
            ),
            (
                Transparent {
                    users: vec![own],
                    ..base()
                },
                "itself",
            ),
            (Transparent { mark: 0, ..base() }, "a mark"),
            (
                Transparent {
                    table: 254,
                    ..base()
                },
                "a table",
            ),
        ] {
            assert!(complaint(&capture).contains(word), "{capture:?}");
        }
        assert!(base().check().is_ok());
    }
}
