//! Daemon on another host that ssh starts.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

use lighthaul_base::{Instant, PortRange};
use lighthaul_daemon::greeting::GREETING;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::Error;

use crate::ssh::command::Ssh;
use crate::ssh::control_socket::ControlSocket;
use crate::ssh::error::SshError;
use crate::ssh::greeting::{Limit, read_words};

/// Daemon that ssh started; it ends when this is dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// ssh command for its host.
    pub ssh: Ssh,
    /// Program on its host.
    pub remote: String,
    /// Way to open channels in the login that started it.
    pub(crate) sharing: Sharing,
    /// Host to connect to.
    pub host: String,
    /// Port to connect to.
    pub port: u16,
    /// Key of the daemon.
    pub key: Fingerprint,
}

/// Way to open channels in a login that exists.
#[derive(Debug)]
pub(crate) enum Sharing {
    /// There is none.
    None,
    /// The user's own configuration shares connections.
    Configured,
    /// A socket for this daemon alone.
    Private(ControlSocket),
}

impl Drop for Started {
    fn drop(&mut self) {
        end(&mut self.child, END_TIMEOUT);
    }
}

/// Starts the program `remote` (a `lighthaul`) on the host of `ssh`. It listens in `ports`, and only `identity` may
/// connect to it.
pub fn start(
    ssh: Ssh,
    remote: &str,
    ports: Option<PortRange>,
    identity: &Identity,
) -> Result<Started, Error> {
    let failed = |error: std::io::Error| SshError::NotStarted {
        program: ssh.program(),
        error,
    };
    let sharing = Sharing::of(&ssh);
    let ports = ports.map(|ports| ports.to_string());
    let mut words = vec!["serve", "--once"];
    if let Some(ports) = &ports {
        words.extend(["--port-range", ports]);
    }
    let mut child = ssh
        .run(&sharing.options_to_open(), remote, &words)
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
    let words = match child.stdout.take() {
        Some(mut output) => read_words(&mut output, GREETING, Limit(None)),
        None => Ok(None),
    };
    let greeting = words.map(|words| words.as_deref().and_then(greeting));
    let Ok(Some((port, key))) = greeting else {
        let code = end(&mut child, FAILURE_TIMEOUT);
        // Ctrl-C ends ssh, too
        interrupt::check()?;
        let (remote, host) = (remote.to_owned(), ssh.host.clone());
        return Err(Error::from(match code {
            Some(127) => SshError::NotInstalled { remote, host },
            Some(255) => SshError::NoLogin { host },
            _ => SshError::NoGreeting { remote, host },
        }));
    };
    Ok(Started {
        child,
        host: ssh.address(),
        remote: remote.to_owned(),
        sharing,
        ssh,
        port,
        key,
    })
}

/// Returns the port and the key of the remote daemon.
fn greeting(words: &[String]) -> Option<(u16, Fingerprint)> {
    let [port, key] = words else { return None };
    Some((port.parse().ok()?, key.parse().ok()?))
}

/// Closes the standard input of `child`, and waits for its end. Returns its status, if it had one.
fn end(child: &mut Child, patience: Duration) -> Option<i32> {
    // the end of its standard input ends the remote daemon
    drop(child.stdin.take());
    let clock = Clock::start();
    while clock.now() < Instant::ZERO + patience {
        if let Ok(Some(status)) = child.try_wait() {
            return status.code();
        }
        pause(END_INTERVAL);
    }
    child.kill().ok();
    child.wait().ok()?.code()
}

impl Sharing {
    /// Returns the way for the host of `ssh`.
    fn of(ssh: &Ssh) -> Self {
        if !ssh.config.is_openssh {
            return Self::None;
        }
        if ssh.config.is_shared && (ssh.config.opens_shared || is_shared_now(ssh)) {
            return Self::Configured;
        }
        ControlSocket::new().map_or(Self::None, Self::Private)
    }

    fn options_to_open(&self) -> Vec<String> {
        match self {
            Self::None | Self::Configured => Vec::new(),
            Self::Private(socket) => socket.options_to_open(),
        }
    }

    /// Returns the options of a process that opens a channel, if there can be one.
    pub(crate) fn options_to_share(&self) -> Option<Vec<String>> {
        match self {
            Self::None => None,
            Self::Configured => Some(Vec::new()),
            Self::Private(socket) => Some(socket.options_to_share()),
        }
    }
}

/// Returns true if a process of the user holds a login to the host that others share.
fn is_shared_now(ssh: &Ssh) -> bool {
    let mut check = ssh.command(&["-O", "check"]);
    check.arg(&ssh.host).stdin(Stdio::null());
    let status = check.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Longest wait for a daemon that was told to end, and for ssh after a failure.
const END_TIMEOUT: Duration = Duration::from_secs(12);
const FAILURE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which a process is checked for its end.
const END_INTERVAL: Duration = Duration::from_millis(2);
