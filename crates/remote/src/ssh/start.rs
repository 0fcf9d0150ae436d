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
use crate::ssh::far_program::{DEFAULT, FarProgram};
use crate::ssh::greeting::{Limit, read_words};
use crate::ssh::install::{Found, Install, Search};

/// Daemon that ssh started; it ends when this is dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// ssh command for its host.
    pub ssh: Ssh,
    /// Program on its host.
    pub(crate) program: FarProgram,
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

/// Program to start on another host.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its name or path there.
    pub program: &'a str,
    /// Ports to listen on.
    pub ports: Option<PortRange>,
    /// Permission to install a copy of this program, if it is missing.
    pub install: Install,
}

/// Starts a program on the host of `ssh`. It listens, and only `identity` may connect to it.
pub fn start(ssh: Ssh, wanted: Wanted<'_>, identity: &Identity) -> Result<Started, Error> {
    let failed = |error: std::io::Error| SshError::NotStarted {
        program: ssh.program(),
        error,
    };
    let mut program = FarProgram::new(wanted.program).map_err(SshError::Program)?;
    let sharing = Sharing::of(&ssh);
    let ports = wanted.ports.map(|ports| ports.to_string());
    let mut words = vec!["serve", "--once"];
    if let Some(ports) = &ports {
        words.extend(["--port-range", ports]);
    }
    let mut child = program
        .run(&ssh, &sharing.options_to_open(), &words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let key = format!("{}\n", tls::fingerprint(identity)?);
    let answer = converse(&mut child, &mut program, (&ssh.host, wanted.install), &key);
    let greeting = match answer {
        Ok(words) => words.as_deref().and_then(greeting),
        Err(error) => {
            end(&mut child, FAILURE_TIMEOUT);
            return Err(error);
        }
    };
    let Some((port, key)) = greeting else {
        let code = end(&mut child, FAILURE_TIMEOUT);
        // Ctrl-C ends ssh, too
        interrupt::check()?;
        let (remote, host) = (program.to_string(), ssh.host);
        return Err(Error::from(match code {
            Some(127) => SshError::NotInstalled { remote, host },
            Some(255) => SshError::NoLogin { host },
            _ => SshError::NoGreeting { remote, host },
        }));
    };
    Ok(Started {
        child,
        host: ssh.address(),
        program,
        sharing,
        ssh,
        port,
        key,
    })
}

/// Sends `key` to the program that `child` starts on a host, and returns the words of its greeting. A program that was
/// sought is known then.
fn converse(
    child: &mut Child,
    program: &mut FarProgram,
    (host, install): (&str, Install),
    key: &str,
) -> Result<Option<Vec<String>>, Error> {
    let (Some(mut input), Some(mut output)) = (child.stdin.as_ref(), child.stdout.take()) else {
        return Ok(None);
    };
    let sent = input.write_all(key.as_bytes());
    // the end of the output tells what has failed
    sent.and_then(|()| input.flush()).ok();
    let FarProgram::Sought(copy) = &*program else {
        return read_words(&mut output, GREETING, Limit(None));
    };
    let search = Search {
        host,
        copy,
        install,
    };
    let Some((found, words)) = search.follow(input, &mut output, key)? else {
        return Ok(None);
    };
    *program = match found {
        Found::Installed => FarProgram::Named(DEFAULT.to_owned()),
        Found::Copy => FarProgram::Copy(copy.clone()),
    };
    Ok(Some(words))
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
