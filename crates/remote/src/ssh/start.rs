//! Daemon on another host that ssh starts.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use lighthaul_daemon::greeting::GREETING;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::Error;

use crate::ssh::error::SshError;

/// Daemon that ssh started; it ends when this is dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// Host to connect to.
    pub host: String,
    /// Port to connect to.
    pub port: u16,
    /// Key of the daemon.
    pub key: Fingerprint,
}

impl Drop for Started {
    fn drop(&mut self) {
        // the end of its standard input ends the remote daemon
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

/// Starts the program `remote` (a `lighthaul`) on `host` over ssh. Only `identity` may connect to it.
pub fn start_over_ssh(
    ssh: &[String],
    host: &str,
    remote: &str,
    identity: &Identity,
) -> Result<Started, Error> {
    let (program, options) = ssh.split_first().ok_or(SshError::NoCommand)?;
    let failed = |error: std::io::Error| {
        let program = program.clone();
        SshError::NotStarted { program, error }
    };
    let mut child = Command::new(program)
        .args(options)
        .args([host, "--", remote, "serve", "--once"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(input) = &mut child.stdin {
        let line = format!("{}\n", tls::fingerprint(identity)?);
        input
            .write_all(line.as_bytes())
            .and_then(|()| input.flush())
            .ok();
    }
    let output = child.stdout.take();
    let greeting = output.and_then(read_greeting);
    let (Some((port, key)), address) = (greeting, resolve(ssh, host)) else {
        let status = child.wait().map_err(failed)?;
        // Ctrl-C ends ssh, too
        interrupt::check()?;
        let (remote, host) = (remote.to_owned(), host.to_owned());
        return Err(Error::from(match status.code() {
            Some(127) => SshError::NotInstalled { remote, host },
            Some(255) => SshError::NoLogin { host },
            _ => SshError::NoGreeting { remote, host },
        }));
    };
    Ok(Started {
        child,
        host: address,
        port,
        key,
    })
}

/// Reads the line with the port and the key of the remote daemon.
fn read_greeting(output: ChildStdout) -> Option<(u16, Fingerprint)> {
    let mut lines = BufReader::new(output).lines();
    // a login shell may print other lines first
    for _ in 0..100 {
        let line = lines.next()?.ok()?;
        let mut words = line.split_whitespace();
        if words.next() == Some(GREETING) {
            return Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?));
        }
    }
    None
}

/// Returns the address of `host` in the configuration of ssh.
fn resolve(ssh: &[String], host: &str) -> String {
    let bare = host
        .rsplit_once('@')
        .map_or(host, |(_, bare)| bare)
        .to_owned();
    let Some((program, options)) = ssh.split_first() else {
        return bare;
    };
    let output = Command::new(program)
        .args(options)
        .args(["-G", host])
        .output();
    let Ok(output) = output else { return bare };
    let text = String::from_utf8_lossy(&output.stdout);
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("hostname ").map(str::to_owned));
    name.unwrap_or(bare)
}
