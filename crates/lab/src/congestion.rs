//! Which congestion control TCP begins with in a host.

use std::collections::BTreeSet;
use std::io;
use std::process::{Command, Stdio};

/// Has connections that this host begins from now on send by the congestion control of this name, or by its default again.
///
/// It is that of its routes: of a namespace the kernel lets only those be the default that any user may choose, and who chooses
/// for a connection that stands comes too late, since one that BBR has paced stays paced.
pub fn prefer(name: Option<&str>) -> io::Result<()> {
    prefer_by(|| Ok(Command::new("ip")), name)
}

/// The same where `ip` makes the command of that name.
pub(crate) fn prefer_by(
    ip: impl Fn() -> io::Result<Command>,
    name: Option<&str>,
) -> io::Result<()> {
    for table in ["main", "local"] {
        let shown = run(ip()?.args(["-4", "route", "show", "table", table]))?;
        let mut seen = BTreeSet::new();
        for route in shown.lines() {
            // of several to one place the first is taken, and replaced
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

/// Runs `ip`; answers what it says.
fn run(ip: &mut Command) -> io::Result<String> {
    let output = ip.stdin(Stdio::null()).output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("ip route: {}", why.trim())))
    }
}

/// The congestion control of a route.
fn control_of(route: &str) -> Option<&str> {
    let mut words = route.split_whitespace();
    words.find(|word| *word == CONTROL)?;
    words.next()
}

/// The words of a route but for its congestion control.
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
    fn only_the_congestion_control_is_left_out() {
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
