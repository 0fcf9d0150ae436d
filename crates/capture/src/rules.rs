//! Rules by which the kernel redirects connections to the gateway: TPROXY for arriving connections, and
//! redirection for those of programs on this host.
//!
//! All rules carry a mark: the name of the nftables table, and the protocol number of routing rules and routes. So the
//! next gateway finds and removes rules of a killed one, independent of what they capture. Until then, arriving
//! connections are forwarded as usual because there is no listener, and those of programs on this host are refused.

use std::path::Path;

use crate::kernel::error::{Error, Exclusive, Task};
use crate::kernel::namespace_lock::NamespaceLock;
use crate::kernel::tools::{IP, NFT};
use crate::script::{CLEAR, Redirect, script};
use crate::settings::Transparent;
use crate::transparent::Listeners;

/// Installed rules, which are removed on drop, in the network namespace of the thread that installed them. They must be
/// dropped in that namespace.
#[derive(Debug)]
pub struct Rules {
    is_gone: bool,
    _lock: NamespaceLock,
}

impl Rules {
    /// Installs rules that redirect connections to `listeners`. Rules of an earlier gateway are removed.
    pub fn install(capture: &Transparent, listeners: &Listeners) -> Result<Self, Error> {
        capture.check()?;
        let redirects = listeners.redirects()?;
        let rules = Self {
            is_gone: false,
            _lock: NamespaceLock::take(LOCK, Exclusive::Capture)?,
        };
        clear()?;
        if capture.arriving {
            for redirect in &redirects {
                route_to_this_host(capture, *redirect)?;
            }
        }
        NFT.run(Task::Capture, &["-f", "-"], &script(capture, &redirects))?;
        Ok(rules)
    }

    /// Removes the rules, and reports a failure. Dropping the rules does not report it.
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

/// Routes marked packets to this host, for any destination.
fn route_to_this_host(capture: &Transparent, redirect: Redirect) -> Result<(), Error> {
    let task = Task::RouteCaptured;
    let family = if redirect.is_v6 { "-6" } else { "-4" };
    let (mark, table) = (capture.mark.to_string(), capture.table.to_string());
    let route = [
        "local", "default", "dev", "lo", "table", &table, "proto", PROTOCOL,
    ];
    IP.run(task, &[&[family, "route", "add"][..], &route].concat(), "")?;
    let rule = ["fwmark", &mark, "lookup", &table, "protocol", PROTOCOL];
    IP.run(task, &[&[family, "rule", "add"][..], &rule].concat(), "")
}

/// Removes all rules of any gateway, first the rules that direct packets to other rules. A failure does not stop it.
fn clear() -> Result<(), Error> {
    let task = Task::RemoveCapture;
    let mut outcome = NFT.run(task, &["-f", "-"], CLEAR);
    for family in ["-4", "-6"] {
        if family == "-6" && !has_v6() {
            continue;
        }
        for words in [
            [family, "rule", "flush", "protocol", PROTOCOL].as_slice(),
            &[family, "route", "flush", "table", "all", "proto", PROTOCOL],
        ] {
            let removed = IP.run(task, words, "");
            outcome = outcome.and(removed);
        }
    }
    outcome
}

/// Returns true if the kernel supports IPv6.
fn has_v6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

/// Protocol number of routing rules and routes ("l"), as in `rt_protos` of iproute2.
const PROTOCOL: &str = "108";
const LOCK: &str = "lighthaul-transparent";
