//! Daemon on another host that ssh starts.
//!
//! [`start`] runs `lighthaul serve --once` there, which serves one client and then ends:
//!
//! ```text
//! here   ssh login, maybe a password; then the key of this client
//! there  greeting: port and key; listens, and admits only this client
//! here   end of standard input ------> the daemon ends
//! ```
//!
//! Both keys cross the ssh connection, so neither side has to know the other before. [`Started`]
//! ends the daemon when it is dropped. `install` searches and copies the program.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

use lighthaul_base::{Instant, PortRange, unsigned};
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
use crate::ssh::greeting::{Limit, PolledOutput, read_words};
use crate::ssh::install::{Found, Install, Search, silent};
use crate::user::User;

/// Daemon that ssh started; the daemon ends on drop.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// ssh command for the host.
    pub ssh: Ssh,
    /// Program on the host.
    pub(crate) program: FarProgram,
    /// Method to open channels in the login that started the daemon.
    pub(crate) sharing: Sharing,
    /// Host to connect to.
    pub host: String,
    /// Port to connect to.
    pub port: u16,
    /// Key of the daemon.
    pub key: Fingerprint,
    /// Time from the start of ssh until the daemon answered.
    pub(crate) login_time: Duration,
}

/// Method to open channels in an existing login.
#[derive(Debug)]
pub(crate) enum Sharing {
    /// No channels are possible.
    None,
    /// The user's own configuration shares connections.
    Configured,
    /// A socket for this daemon alone.
    Private(ControlSocket),
}

impl Started {
    /// Returns true if the ssh process that started the daemon has ended, or ends soon.
    pub(crate) fn has_ended(&mut self) -> bool {
        let clock = Clock::start();
        while matches!(self.child.try_wait(), Ok(None)) {
            if clock.now() >= Instant::ZERO + LOSS_TIME {
                return false;
            }
            pause(END_INTERVAL);
        }
        true
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        end(&mut self.child, END_TIMEOUT);
    }
}

/// Program to start on another host.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Name or path of the program on that host.
    pub program: &'a str,
    /// Ports to listen on.
    pub ports: Option<PortRange>,
    /// Permission to install a copy of this program, if it is missing.
    pub install: Install,
    /// Longest silence after the login.
    pub patience: Duration,
    /// User who is asked for that permission.
    pub user: &'a dyn User,
}

/// Starts a program on the host of `ssh`. It listens, and only `identity` may connect to it.
pub fn start(ssh: Ssh, wanted: Wanted<'_>, identity: &Identity) -> Result<Started, Error> {
    let failed = |error: std::io::Error| SshError::NotStarted {
        program: ssh.program(),
        error,
    };
    let mut program =
        FarProgram::new(wanted.program, wanted.patience).map_err(SshError::Program)?;
    let sharing = Sharing::of(&ssh);
    let ports = wanted.ports.map(|ports| ports.to_string());
    let mut words = vec!["serve", "--once"];
    if let Some(ports) = &ports {
        words.extend(["--port-range", ports]);
    }
    let clock = Clock::start();
    let mut child = program
        .run(&ssh, &sharing.options_to_open(), &words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let key = format!("{}\n", tls::fingerprint(identity)?);
    let answer = converse(&mut child, &mut program, (&ssh, &sharing, wanted), &key);
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
        let (remote, command, host) = (program.to_string(), ssh.line(), ssh.host);
        return Err(Error::from(match code {
            Some(127) => SshError::NotInstalled { remote, host },
            Some(255) => SshError::NoLogin { host, command },
            _ => SshError::NoGreeting {
                remote,
                host,
                command,
            },
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
        login_time: clock.now().since(Instant::ZERO),
    })
}

/// Sends `key` to the program that `child` starts on a host, and returns the words of its greeting.
/// After a search, `program` is the one that was found.
fn converse(
    child: &mut Child,
    program: &mut FarProgram,
    (ssh, sharing, wanted): (&Ssh, &Sharing, Wanted<'_>),
    key: &str,
) -> Result<Option<Vec<String>>, Error> {
    let (Some(mut input), Some(output)) = (child.stdin.as_ref(), child.stdout.take()) else {
        return Ok(None);
    };
    let mut output = PolledOutput(output);
    let sent = input.write_all(key.as_bytes());
    // the end of the output tells what has failed
    sent.and_then(|()| input.flush()).ok();
    let FarProgram::Sought(copy, patience) = &*program else {
        await_login(ssh, sharing, &output)?;
        let limit = Limit::after(wanted.patience);
        let words = read_words(&mut output, GREETING, limit)?;
        if words.is_none() && limit.has_come() {
            return Err(silent(ssh, wanted.program, wanted.patience));
        }
        return Ok(words);
    };
    let search = Search {
        ssh,
        copy,
        install: wanted.install,
        patience: *patience,
        user: wanted.user,
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

/// Waits until ssh has logged in, if that can be detected: the user may have to type a password.
fn await_login(ssh: &Ssh, sharing: &Sharing, output: &PolledOutput) -> Result<(), Error> {
    let is_in = || match sharing {
        Sharing::Private(socket) => socket.is_open(),
        Sharing::Configured => is_shared_now(ssh),
        // no password can be typed without a terminal
        Sharing::None => File::open("/dev/tty").is_err(),
    };
    // reading reports a failure
    while !output.is_ready().unwrap_or(true) && !is_in() {
        interrupt::check()?;
    }
    Ok(())
}

/// Returns the port and the key of the remote daemon.
fn greeting(words: &[String]) -> Option<(u16, Fingerprint)> {
    let [port, key] = words else { return None };
    Some((unsigned::number(port)?, key.parse().ok()?))
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
    /// Returns the method for the host of `ssh`.
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

    /// Returns the options of a process that opens a channel, if channels are possible.
    pub(crate) fn options_to_share(&self) -> Option<Vec<String>> {
        match self {
            Self::None => None,
            Self::Configured => Some(Vec::new()),
            Self::Private(socket) => Some(socket.options_to_share()),
        }
    }
}

/// Returns true if a process of the user holds a login to the host that other processes can use.
pub(crate) fn is_shared_now(ssh: &Ssh) -> bool {
    let mut check = ssh.command(&["-O", "check"]);
    check.arg(&ssh.host).stdin(Stdio::null());
    let status = check.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Default of the longest silence of a program after the login.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Time limit for an ssh process to end after the loss of a connection through it.
const LOSS_TIME: Duration = Duration::from_millis(500);
/// Longest wait for the end of a daemon that was asked to stop.
const END_TIMEOUT: Duration = Duration::from_secs(12);
/// Longest wait for the end of ssh after a failure.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which a process is checked for its end.
const END_INTERVAL: Duration = Duration::from_millis(2);
