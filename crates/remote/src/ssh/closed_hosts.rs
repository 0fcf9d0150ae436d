//! Hosts with only the port of ssh open, in a file below the cache directory.
//!
//! Data to such a host goes through several logins. A copy that finds the host here begins those logins together with
//! its first one, instead of two logins later. Each line has the host as the user wrote it, its name or address, and
//! its port. The program that runs there and the time in seconds since 1970 follow. Lines that are not understood are
//! dropped.

use std::path::PathBuf;

use lighthaul_session::known_path::unix_seconds;

use crate::cache_file::{read, replace};
use crate::paths;
use crate::ssh::command::Ssh;
use crate::ssh::far_program::{DEFAULT, FarProgram};
use crate::ssh::program_copy::ProgramCopy;

/// Age at which a line no longer counts: firewalls change.
const AGE_MAX: u64 = 7 * 86_400;
/// Maximum number of hosts that are kept.
const HOSTS_MAX: usize = 200;

/// File with hosts that have only the port of ssh open, and allow further logins.
#[derive(Clone, Debug)]
pub(crate) struct ClosedHosts(PathBuf);

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClosedHost {
    /// Host as the user wrote it, resolved name or address, and port, as one text.
    name: String,
    /// True if the host runs a copy of this program.
    is_copy: bool,
    /// Time in seconds since 1970.
    at: u64,
}

impl ClosedHosts {
    /// Returns the file of this user.
    pub(crate) fn of_user() -> Self {
        Self(paths::closed_hosts())
    }

    /// Returns the program to run on the host of `ssh`, if only the port of ssh was open on it lately. `wanted` is the
    /// program that the user wants there.
    pub(crate) fn program(&self, ssh: &Ssh, wanted: &str) -> Option<FarProgram> {
        let (name, now) = (name(ssh), unix_seconds());
        let hosts = self.hosts();
        let host = hosts.iter().find(|host| host.name == name)?;
        if now.saturating_sub(host.at) > AGE_MAX {
            return None;
        }
        if wanted == DEFAULT && host.is_copy {
            return Some(FarProgram::Copy(ProgramCopy::of_this_program().ok()?));
        }
        Some(FarProgram::Named(wanted.to_owned()))
    }

    /// Adds the host of `ssh`, where `program` runs.
    pub(crate) fn add(&self, ssh: &Ssh, program: &FarProgram) {
        let name = name(ssh);
        if name.split_whitespace().count() != 3 {
            return;
        }
        let mut hosts = self.hosts();
        hosts.retain(|host| host.name != name);
        let is_copy = matches!(program, FarProgram::Copy(_));
        let at = unix_seconds();
        hosts.push(ClosedHost { name, is_copy, at });
        let oldest = hosts.len().saturating_sub(HOSTS_MAX);
        self.write(&hosts[oldest..]);
    }

    /// Removes the host of `ssh`.
    pub(crate) fn remove(&self, ssh: &Ssh) {
        let name = name(ssh);
        let mut hosts = self.hosts();
        let before = hosts.len();
        hosts.retain(|host| host.name != name);
        if hosts.len() < before {
            self.write(&hosts);
        }
    }

    fn hosts(&self) -> Vec<ClosedHost> {
        let text = read(&self.0);
        text.lines().filter_map(parse_line).collect()
    }

    fn write(&self, hosts: &[ClosedHost]) {
        let lines: String = hosts.iter().map(print_line).collect();
        // without the file, a copy tries one further login first
        replace(&self.0, &lines).ok();
    }
}

fn name(ssh: &Ssh) -> String {
    let port = ssh.config.port.unwrap_or(22);
    format!("{} {} {port}", ssh.host, ssh.address())
}

fn print_line(host: &ClosedHost) -> String {
    let program = if host.is_copy { COPY } else { NAMED };
    format!("{} {program} {}\n", host.name, host.at)
}

fn parse_line(line: &str) -> Option<ClosedHost> {
    let (rest, at) = line.rsplit_once(' ')?;
    let (name, program) = rest.rsplit_once(' ')?;
    let is_copy = match program {
        COPY => true,
        NAMED => false,
        _ => return None,
    };
    (name.split(' ').count() == 3).then_some(ClosedHost {
        name: name.to_owned(),
        is_copy,
        at: at.parse().ok()?,
    })
}

const COPY: &str = "copy";
const NAMED: &str = "named";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn host_is_known_until_its_removal_or_expiry() {
        let folder = std::env::temp_dir().join(format!("closed-hosts-{}", std::process::id()));
        let hosts = ClosedHosts(folder.join("new/hosts"));
        // no such program is there to ask for a configuration
        let ssh = Ssh::new("/no/such/ssh", "me@far").unwrap();
        let other = Ssh::new("/no/such/ssh", "far").unwrap();
        assert_eq!(hosts.program(&ssh, DEFAULT), None);
        let named = FarProgram::Named("/opt/lighthaul".to_owned());
        hosts.add(&ssh, &named);
        assert_eq!(hosts.program(&ssh, "/opt/lighthaul"), Some(named));
        let copy = FarProgram::Copy(ProgramCopy::of_this_program().unwrap());
        hosts.add(&ssh, &copy);
        assert_eq!(hosts.program(&ssh, DEFAULT), Some(copy));
        assert_eq!(hosts.program(&other, DEFAULT), None);
        hosts.remove(&other);
        assert_eq!(hosts.hosts().len(), 1);
        hosts.remove(&ssh);
        assert_eq!(hosts.program(&ssh, DEFAULT), None);
        replace(
            &hosts.0,
            "me@far far 22 named 17\nx\nfar far 22 other 99999999999\n",
        )
        .unwrap();
        assert_eq!(hosts.hosts().len(), 1);
        assert_eq!(hosts.program(&ssh, DEFAULT), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn oldest_hosts_are_dropped() {
        let folder = std::env::temp_dir().join(format!("closed-many-{}", std::process::id()));
        let hosts = ClosedHosts(folder.join("hosts"));
        let program = FarProgram::Named(DEFAULT.to_owned());
        let ssh = |nth: usize| Ssh::new("/no/such/ssh", &format!("host{nth}")).unwrap();
        for nth in 0..HOSTS_MAX + 2 {
            hosts.add(&ssh(nth), &program);
        }
        assert_eq!(hosts.hosts().len(), HOSTS_MAX);
        assert_eq!(hosts.program(&ssh(1), DEFAULT), None);
        assert_eq!(hosts.program(&ssh(2), DEFAULT), Some(program));
        fs::remove_dir_all(folder).unwrap();
    }
}
