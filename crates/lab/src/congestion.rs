//! Choice of TCP's congestion control in a host of the lab.

use std::collections::BTreeSet;
use std::io;
use std::process::{Command, Stdio};

/// Sets the congestion control of new connections of this host; `None` restores the default.
///
/// Sets it as an attribute of the routes (`congctl`). A namespace's own default may only be an
/// algorithm that is open to all users. A choice per connection would come too late, since a
/// connection that BBR has paced stays paced.
pub fn prefer(name: Option<&str>) -> io::Result<()> {
    prefer_by(|| Ok(Command::new("ip")), name)
}

/// Like [`prefer`], with a function that creates the `ip` command.
pub(crate) fn prefer_by(
    ip: impl Fn() -> io::Result<Command>,
    name: Option<&str>,
) -> io::Result<()> {
    for table in ["main", "local"] {
        let shown = run(ip()?.args(["-4", "route", "show", "table", table]))?;
        let mut seen = BTreeSet::new();
        for route in shown.lines() {
            // Of several routes to one destination, the kernel uses the first: replace it.
            let place = route.split(" dev ").next();
            let is_taken = seen.insert(place) && !route.starts_with("broadcast ");
            if is_taken && control_of(route) != name {
                let mut replace = ip()?;
                replace.args(["-4", "route", "replace"]);
                replace.args(without_control(route)).args(["table", table]);
                run(replace.args(name.map(|name| [CONTROL, name]).iter().flatten()))?;
            }
        }
    }
    Ok(())
}

/// Runs `ip`. Returns its output.
fn run(ip: &mut Command) -> io::Result<String> {
    let output = ip.stdin(Stdio::null()).output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("ip route: {}", why.trim())))
    }
}

/// Returns the congestion control of a route.
fn control_of(route: &str) -> Option<&str> {
    let mut words = route.split_whitespace();
    words.find(|word| *word == CONTROL)?;
    words.next()
}

/// Returns the words of a route without its congestion control.
fn without_control(route: &str) -> impl Iterator<Item = &str> {
    let control = control_of(route);
    let is_of_it = move |word: &&str| *word == CONTROL || Some(*word) == control;
    route.split_whitespace().filter(move |word| !is_of_it(word))
}

const CONTROL: &str = "congctl";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_control_removes_only_the_congestion_control() {
        for (route, left) in [
            ("10.0.0.2 dev wan scope link", "10.0.0.2 dev wan scope link"),
            ("default dev wan congctl bbr", "default dev wan"),
            (
                "10.0.0.2 dev wan congctl cubic mtu 9",
                "10.0.0.2 dev wan mtu 9",
            ),
        ] {
            let words: Vec<&str> = without_control(route).collect();
            assert_eq!(words.join(" "), left);
        }
    }
}
