//! Sessions with a daemon that ssh started: directly, or through ssh where its port is closed.
//!
//! ```text
//! direct    connect ----------+--(an answer wins)
//! ssh       |  head start  |  + login or channel ---- (an answer wins)
//! ```

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::error::Fault;
use lighthaul_base::{Instant, PortRange};
use lighthaul_daemon::client::call;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::session::Session;

use crate::ssh::route::SshRoute;
use crate::ssh::start::Started;

/// Session with a daemon that ssh started.
#[derive(Debug)]
pub struct SshSession {
    /// The session.
    pub session: Session,
    /// Route through ssh, and the reason why the port of the daemon was not reached.
    pub through: Option<(Arc<SshRoute>, Error)>,
}

/// Result of one of two attempts.
enum Attempt {
    Direct(Result<Session, Error>),
    Through(Result<Session, Error>),
}

/// Connects to `started`, whose port is in `ports`: directly, or by `route` through ssh if that fails or takes too
/// long. If the session `is_bulk`, further connections are prepared.
pub fn connect(
    started: &Started,
    route: SshRoute,
    (ports, is_bulk): (Option<PortRange>, bool),
    identity: &Identity,
) -> Result<SshSession, Error> {
    let (told, attempts) = channel();
    let clock = Clock::start();
    route.lead_to(started);
    begin_direct(started, identity, told.clone());
    let head_start = if route.is_early() {
        Duration::ZERO
    } else {
        head_start(started.login_time)
    };
    let mut closed = match attempts.recv_timeout(head_start) {
        Ok(Attempt::Direct(Ok(session))) => return Ok(directly(session, &route)),
        Ok(Attempt::Direct(Err(error)) | Attempt::Through(Err(error))) => Some(error),
        Ok(Attempt::Through(_)) | Err(_) => None,
    };
    interrupt::check()?;
    let route = Arc::new(route);
    if is_bulk {
        route.prepare();
    }
    begin_through(&route, started.key, identity, told);
    let mut refused = None;
    loop {
        match next(&attempts)? {
            Some(Attempt::Direct(Ok(session))) => return Ok(directly(session, &route)),
            Some(Attempt::Through(Ok(session))) => {
                if route.is_early() && closed.is_none() {
                    // both began at the same time, and a direct connection is better
                    let grace = clock.now().since(Instant::ZERO) / 2;
                    if let Ok(Attempt::Direct(Ok(session))) = attempts.recv_timeout(grace) {
                        return Ok(directly(session, &route));
                    }
                }
                let closed = closed.unwrap_or_else(|| Fault::Slow.into());
                let through = Some((route, closed));
                return Ok(SshSession { session, through });
            }
            Some(Attempt::Direct(Err(error))) => closed = Some(error),
            Some(Attempt::Through(Err(error))) => refused = Some(error),
            None => {}
        }
        if let (Some(closed), Some(refused)) = (&closed, &refused) {
            return Err(neither((closed, refused), started, ports));
        }
    }
}

/// Connects to the port of `started` in a thread, which may continue after the caller returns.
fn begin_direct(started: &Started, identity: &Identity, told: Sender<Attempt>) {
    let (host, port, key) = (started.host.clone(), started.port, started.key);
    let (ours, work) = (identity.clone(), Cancellation::current());
    thread::spawn(move || {
        let call = || call(&host, port, &ours).and_then(|session| checked(session, key));
        let session = work.cover(call);
        told.send(Attempt::Direct(session)).ok()
    });
}

/// Connects through ssh in a thread.
fn begin_through(
    route: &Arc<SshRoute>,
    key: Fingerprint,
    identity: &Identity,
    told: Sender<Attempt>,
) {
    let (way, ours) = (Arc::clone(route), identity.clone());
    let work = Cancellation::current();
    thread::spawn(move || {
        let start = || Session::start_by(way, &ours).and_then(|session| checked(session, key));
        let session = work.cover(start);
        told.send(Attempt::Through(session)).ok()
    });
}

/// Returns `session` if its peer has the key `key`.
fn checked(session: Session, key: Fingerprint) -> Result<Session, Error> {
    if session.peer == key {
        Ok(session)
    } else {
        Err(Fault::OtherHost.into())
    }
}

/// Returns a session that needs no route.
fn directly(session: Session, route: &SshRoute) -> SshSession {
    route.abandon();
    SshSession {
        session,
        through: None,
    }
}

/// Returns the next result that comes soon.
fn next(attempts: &Receiver<Attempt>) -> Result<Option<Attempt>, Error> {
    interrupt::check()?;
    match attempts.recv_timeout(CHECK_INTERVAL) {
        Ok(attempt) => Ok(Some(attempt)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(Fault::NoResult.into()),
    }
}

/// Returns the error of both attempts, with the remedies.
fn neither(
    (closed, refused): (&Error, &Error),
    started: &Started,
    ports: Option<PortRange>,
) -> Error {
    for error in [closed, refused] {
        if error.code() == Code::Permission {
            return error.clone();
        }
    }
    let advice = match ports {
        Some(ports) => format!("open TCP and UDP ports {ports} in the firewall there"),
        None => "open some TCP and UDP ports in the firewall there, and name them with --port-range FROM-TO".to_owned(),
    };
    Fault::NoWay {
        host: started.ssh.host.clone(),
        port: started.port,
        closed: closed.clone(),
        refused: refused.clone(),
        advice,
    }
    .into()
}

/// Returns the time for which the direct attempt runs alone. It takes three round trips, and a login thirteen.
fn head_start(login_time: Duration) -> Duration {
    (login_time / 4).clamp(HEAD_START_MIN, HEAD_START_MAX)
}

/// Minimum time for which the direct attempt runs alone.
const HEAD_START_MIN: Duration = Duration::from_millis(200);
/// Maximum time for which the direct attempt runs alone.
const HEAD_START_MAX: Duration = Duration::from_secs(1);
/// Interval at which a stop request is checked for.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
