//! Connections through ssh to a daemon that ssh started.
//!
//! The first connection is a channel in the login that started the daemon, so that it needs no further login. Each
//! further connection has a login and a TCP connection of its own. A channel carries at most 2 MiB in a round trip, and
//! one TCP connection carries little where packets are lost. One login is tried first. If it needs a password or a
//! second factor, or the server refuses it, the further connections are channels, too.
//!
//! If an earlier copy to the host has needed such logins, they begin before the daemon is started, and wait for its
//! port.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::tcp::with_handshake_timeouts;
use lighthaul_session::error::Error;
use lighthaul_session::session::Call;

use crate::ssh::closed_hosts::ClosedHosts;
use crate::ssh::command::Ssh;
use crate::ssh::error::SshError;
use crate::ssh::far_program::FarProgram;
use crate::ssh::forward::READY;
use crate::ssh::greeting::{Limit, read_words};
use crate::ssh::pair::connected_pair;
use crate::ssh::start::Started;

/// Route through ssh to a daemon that ssh started. Its processes end when it is dropped.
#[derive(Debug)]
pub struct SshRoute(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ssh: Ssh,
    hosts: ClosedHosts,
    /// Program that an earlier copy started on the host, if the logins began early.
    early: Option<FarProgram>,
    state: Mutex<RouteState>,
    changed: Condvar,
    /// Processes; `None` once the route has ended.
    children: Mutex<Option<Vec<Child>>>,
}

/// Daemon at the end of the route.
#[derive(Clone, Debug)]
struct Far {
    program: FarProgram,
    port: u16,
    /// Options for a channel in the login that started the daemon, if channels are possible.
    share: Option<Vec<String>>,
}

#[derive(Debug, Default)]
struct RouteState {
    /// Daemon, once known.
    far: Option<Far>,
    /// True once the route has ended.
    has_ended: bool,
    /// Connections that are open and not in use yet.
    ready: Vec<TcpStream>,
    /// Connections that were handed out.
    opened: u32,
    /// Connections besides the first that pay at most.
    most: u32,
    /// Number of connections that were begun after the first.
    begun: u32,
    /// Number of these connections that are in progress.
    pending: u32,
    /// True from the first call.
    is_called: bool,
    /// True if further connections are begun as soon as they can be.
    is_prepared: bool,
    logins: Logins,
}

/// Knowledge of further logins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Logins {
    #[default]
    Untried,
    Trying,
    Work,
    Fail,
}

impl SshRoute {
    /// Returns the route to a daemon that is about to start on the host of `ssh`, as `program`. If the route `is_bulk`,
    /// and an earlier copy has needed further logins, these begin now.
    pub fn new(ssh: &Ssh, program: &str, is_bulk: bool) -> Self {
        let hosts = ClosedHosts::of_user();
        // connections that the user shares need no further login
        let has_logins = is_bulk && ssh.config.is_openssh && !ssh.config.is_shared;
        let early = has_logins.then(|| hosts.program(ssh, program)).flatten();
        let is_early = early.is_some();
        let route = Self(Arc::new(Shared {
            ssh: ssh.clone(),
            hosts,
            early,
            state: Mutex::default(),
            changed: Condvar::new(),
            children: Mutex::new(Some(Vec::new())),
        }));
        if is_early {
            let mut state = route.0.lock();
            while state.begun < EARLY_LOGINS {
                route.0.begin(&mut state, Logins::Trying);
            }
        }
        route
    }

    /// Connects the route to `started`, which must outlive the route.
    pub(crate) fn lead_to(&self, started: &Started) {
        self.0.lock().far = Some(Far {
            program: started.program.clone(),
            port: started.port,
            share: started.sharing.options_to_share(),
        });
        self.0.changed.notify_all();
    }

    /// Returns true if logins began before the daemon was started.
    pub(crate) fn is_early(&self) -> bool {
        self.0.early.is_some()
    }

    /// Ends a route that is not needed, since the host is reached directly. The next copy begins no login early.
    pub(crate) fn abandon(&self) {
        self.0.end();
        if self.is_early() {
            self.0.hosts.remove(&self.0.ssh);
        }
    }

    /// Returns the number of connections that were opened besides the first.
    pub fn further_connections(&self) -> u32 {
        self.0.lock().opened.saturating_sub(1)
    }

    /// Begins a login for further connections that will be needed. If it works, it begins those.
    pub fn prepare(&self) {
        let mut state = self.0.lock();
        state.is_prepared = true;
        match state.logins {
            Logins::Untried => self.0.begin(&mut state, Logins::Trying),
            Logins::Trying => {}
            Logins::Work | Logins::Fail => self.0.widen(&mut state),
        }
    }
}

impl Call for SshRoute {
    fn call(&self) -> Result<TcpStream, Error> {
        let is_first = !std::mem::replace(&mut self.0.lock().is_called, true);
        // a login that began early is there before a channel
        let opened = match (is_first, self.0.early.is_some()) {
            (true, false) => self.0.channel().or_else(|_| self.0.further()),
            (true, true) => self.0.further().or_else(|_| self.0.channel()),
            (false, _) => self.0.further(),
        };
        if opened.is_ok() {
            self.0.lock().opened += 1;
        }
        opened
    }

    fn connections_max(&self, rtt: Duration) -> u8 {
        let most = connections(rtt);
        self.0.lock().most = most.into();
        most
    }

    fn is_limited(&self) -> bool {
        true
    }

    fn patience(&self) -> Duration {
        JOIN_TIMEOUT
    }
}

impl Drop for SshRoute {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Shared {
    /// Ends all processes of the route, and starts no others.
    fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        for mut child in children.take().into_iter().flatten() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Takes a connection that is ready. The first call opens more of them than it needs.
    fn further(self: &Arc<Self>) -> Result<TcpStream, Error> {
        let clock = Clock::start();
        let mut state = self.lock();
        loop {
            if let Some(ready) = state.ready.pop() {
                return Ok(ready);
            }
            match state.logins {
                Logins::Untried => self.begin(&mut state, Logins::Trying),
                Logins::Trying => {}
                Logins::Work | Logins::Fail => self.widen(&mut state),
            }
            let is_late = clock.now() > Instant::ZERO + LOGIN_TIMEOUT;
            if state.pending == 0 || is_late {
                return Err(self.refused());
            }
            let waited = self.changed.wait_timeout(state, LOGIN_TIMEOUT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Begins as many connections as may be in progress at a time.
    fn widen(self: &Arc<Self>, state: &mut RouteState) {
        let most = match state.logins {
            Logins::Work => state.most.max(CONNECTIONS_MIN.into()),
            Logins::Untried | Logins::Trying | Logins::Fail => CHANNELS_MAX,
        };
        while state.begun < most && state.pending < PENDING_MAX {
            let logins = state.logins;
            self.begin(state, logins);
        }
    }

    /// Begins a connection in a thread of its own, which also finds out if further logins work.
    fn begin(self: &Arc<Self>, state: &mut RouteState, logins: Logins) {
        state.logins = logins;
        state.begun += 1;
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("ssh".into());
        let spawned = thread.spawn(move || {
            let opened = match logins {
                Logins::Fail => shared.channel(),
                Logins::Untried | Logins::Trying | Logins::Work => {
                    shared.open(&shared.options_to_log_in(), Stdio::null())
                }
            };
            let mut state = shared.lock();
            state.pending -= 1;
            if state.logins == Logins::Trying && !state.has_ended {
                state.logins = shared.judge(opened.is_ok(), &state);
            }
            match opened {
                Ok(opened) => state.ready.push(opened),
                // the server refuses more logins at a time, or more channels
                Err(_) if state.logins == logins => state.begun = u32::MAX,
                // the failed login is none of the channels
                Err(_) => state.begun -= 1,
            }
            if state.is_prepared {
                shared.widen(&mut state);
            }
            drop(state);
            shared.changed.notify_all();
        });
        match spawned {
            Ok(_) => state.pending += 1,
            Err(_) => state.begun = u32::MAX,
        }
    }

    /// Returns true if further logins work, after the first login has ended. The next copy will know.
    fn judge(&self, works: bool, state: &RouteState) -> Logins {
        if !works {
            self.hosts.remove(&self.ssh);
            return Logins::Fail;
        }
        if let Some(far) = &state.far {
            self.hosts.add(&self.ssh, &far.program);
        }
        Logins::Work
    }

    /// Opens a channel in the login that started the daemon.
    fn channel(&self) -> Result<TcpStream, Error> {
        let far = self.lock().far.clone();
        let options = far.and_then(|far| far.share);
        let options = options.ok_or_else(|| self.refused())?;
        self.open(&[options, self.quiet()].concat(), Stdio::inherit())
    }

    fn refused(&self) -> Error {
        let host = self.ssh.host.clone();
        SshError::NoChannel { host }.into()
    }

    /// Returns the options for a separate login and TCP connection, which must not ask for input.
    fn options_to_log_in(&self) -> Vec<String> {
        if !self.ssh.config.is_openssh {
            return Vec::new();
        }
        let own = ["-oControlPath=none", "-oControlMaster=no"].map(str::to_owned);
        [&own[..], &self.quiet()].concat()
    }

    /// Returns the options for a process that asks for no input, prints no banner, and repeats no port forwardings of
    /// the user.
    fn quiet(&self) -> Vec<String> {
        if !self.ssh.config.is_openssh {
            return Vec::new();
        }
        let options = [
            "-oBatchMode=yes",
            "-oLogLevel=ERROR",
            "-oClearAllForwardings=yes",
            "-oPermitLocalCommand=no",
        ];
        options.map(str::to_owned).into()
    }

    /// Starts ssh with `options`, and connects to the daemon through it.
    fn open(&self, options: &[String], errors: Stdio) -> Result<TcpStream, Error> {
        let failed = |error: std::io::Error| SshError::NotStarted {
            program: self.ssh.program(),
            error,
        };
        let (mut ours, theirs) = connected_pair().map_err(failed)?;
        let far = self.lock().far.clone();
        let program = far.map(|far| far.program).or_else(|| self.early.clone());
        let program = program.ok_or_else(|| self.refused())?;
        let mut command = program.run(&self.ssh, options, &["forward"]);
        let input = theirs.try_clone().map_err(failed)?;
        // Ctrl-C must not end it before the session has ended
        command
            .stdin(input)
            .stdout(theirs)
            .stderr(errors)
            .process_group(0);
        self.spawn(command).map_err(failed)?;
        ours.set_read_timeout(Some(READ_INTERVAL)).map_err(failed)?;
        let port = self.await_port()?;
        ours.write_all(format!("{port}\n").as_bytes())
            .map_err(failed)?;
        let until = (Clock::start(), Instant::ZERO + LOGIN_TIMEOUT);
        let ready = read_words(&mut ours, READY, Limit(Some(until)))?;
        ready.ok_or_else(|| self.refused())?;
        Ok(with_handshake_timeouts(ours)?)
    }

    /// Returns the port of the daemon, once that has been started.
    fn await_port(&self) -> Result<u16, Error> {
        let waits = |state: &mut RouteState| state.far.is_none() && !state.has_ended;
        let state = self.changed.wait_while(self.lock(), waits);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let far = state.far.as_ref().filter(|_| !state.has_ended);
        far.map(|far| far.port).ok_or_else(|| self.refused())
    }

    /// Starts `command`, whose process ends with this route.
    fn spawn(&self, mut command: Command) -> std::io::Result<()> {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(children) = children.as_mut() else {
            return Err(std::io::Error::other("the copy has ended"));
        };
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        // the command holds the child's end of the pair until it is dropped
        children.push(command.spawn()?);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, RouteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of additional connections that fill a fast path with the round-trip time `rtt`.
fn connections(rtt: Duration) -> u8 {
    let full = FULL.bytes_in(rtt) / WINDOW;
    u8::try_from(full).map_or(CONNECTIONS_MAX, |full| {
        full.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
    })
}

/// Rate that the processors of most hosts encrypt with ssh.
const FULL: Rate = Rate::from_mbps(1000);
/// Bytes that a channel carries in a round trip.
const WINDOW: u64 = 2 << 20;
/// Minimum number of connections besides the first, if logins work.
const CONNECTIONS_MIN: u8 = 7;
/// Maximum number of connections besides the first, if logins work.
const CONNECTIONS_MAX: u8 = 16;
/// Connections that are opened at a time. From ten on, an OpenSSH server refuses some logins at random (`MaxStartups`).
const PENDING_MAX: u32 = 8;
/// Logins that begin before the daemon is started. With that of the daemon they are as many as may be under way. On
/// most paths the copy waits for no others.
const EARLY_LOGINS: u32 = CONNECTIONS_MIN as u32;
/// Further channels in one login. With the first and that of the daemon, an OpenSSH server allows ten (`MaxSessions`).
const CHANNELS_MAX: u32 = 8;
/// Longest wait for one login.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest wait for further connections. Later ones are not used.
const JOIN_TIMEOUT: Duration = Duration::from_secs(4);
/// Interval at which a login in progress checks for a stop request.
const READ_INTERVAL: Duration = Duration::from_millis(200);
