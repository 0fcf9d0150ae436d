//! What has the kernel hand over connections that are meant for others: TPROXY for those that arrive, and
//! redirection for those of programs on this host.
//!
//! All of it carries a mark of ours: the table of nftables its name, rules and routes the number of our protocol. So what
//! a gateway that was killed has left is found and removed by the next one, whatever that one was told to capture. Until
//! then, what arrives goes its ordinary redirect, since nobody listens; what programs of this host send is refused.

use std::path::Path;

use crate::capture::script::{CLEAR, Redirect, script};
use crate::capture::settings::Transparent;
use crate::capture::transparent::Listeners;
use crate::kernel::error::Error;
use crate::kernel::namespace_lock::NamespaceLock;
use crate::kernel::tools::{IP, NFT};

/// Rules that are in force as long as this lives, in the network namespace of the thread that made them; there it has to
/// be dropped, too.
#[derive(Debug)]
pub struct Rules {
    is_gone: bool,
    _claim: NamespaceLock,
}

impl Rules {
    /// Has the kernel hand over connections to `listeners`; what an earlier gateway has left is removed.
    pub fn install(capture: &Transparent, listeners: &Listeners) -> Result<Self, Error> {
        capture.check()?;
        let redirects = listeners.redirects()?;
        let rules = Self {
            is_gone: false,
            _claim: NamespaceLock::make(CLAIM, "captures connections")?,
        };
        clear()?;
        if capture.arriving {
            for redirect in &redirects {
                keep_here(capture, *redirect)?;
            }
        }
        NFT.run(
            "capture connections",
            &["-f", "-"],
            &script(capture, &redirects),
        )?;
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
fn keep_here(capture: &Transparent, redirect: Redirect) -> Result<(), Error> {
    let what = "keep captured packets on this host";
    let family = if redirect.is_v6 { "-6" } else { "-4" };
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

/// "l": the number of those who made a rule or a route, as `rt_protos` of iproute2 has them.
const PROTOCOL: &str = "108";
const CLAIM: &str = "lighthaul-transparent";
