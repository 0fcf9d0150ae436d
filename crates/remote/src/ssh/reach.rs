//! Sessions with a daemon that ssh started: directly, or through ssh where its port is closed.
//!
//! ```text
//! direct    connect ----------+--(an answer wins)
//! ssh       |  head start  |  + login or channel ---- (an answer wins)
//! ```

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::error::Fault;
use lighthaul_base::PortRange;
use lighthaul_daemon::client::call;
use lighthaul_io::crypto::identity::Identity;
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

/// Connects to `started`, whose port is in `ports`: directly, or through ssh if that does not succeed soon. If the
/// session `is_bulk`, further connections are prepared.
pub fn connect(
    started: &Started,
    (ports, is_bulk): (Option<PortRange>, bool),
    identity: &Identity,
) -> Result<SshSession, Error> {
    let (told, attempts) = channel();
    let (host, port, key, ours) = (
        started.host.clone(),
        started.port,
        started.key,
        identity.clone(),
    );
    let checked = move |session: Session| {
        if session.peer == key {
            Ok(session)
        } else {
            Err(Fault::OtherHost.into())
        }
    };
    let tell = told.clone();
    // the attempt may outlive this function, and then ends without effect
    thread::spawn(move || {
        let session = call(&host, port, &ours).and_then(checked);
        tell.send(Attempt::Direct(session)).ok()
    });
    let mut closed = match attempts.recv_timeout(HEAD_START) {
        Ok(Attempt::Direct(Ok(session))) => {
            return Ok(SshSession {
                session,
                through: None,
            });
        }
        Ok(Attempt::Direct(Err(error)) | Attempt::Through(Err(error))) => Some(error),
        Ok(Attempt::Through(_)) | Err(_) => None,
    };
    interrupt::check()?;
    let route = Arc::new(SshRoute::new(started));
    if is_bulk {
        route.prepare();
    }
    let (way, ours) = (Arc::clone(&route), identity.clone());
    thread::spawn(move || {
        let session = Session::start_by(way, &ours).and_then(checked);
        told.send(Attempt::Through(session)).ok()
    });
    let mut refused = None;
    loop {
        match next(&attempts)? {
            Some(Attempt::Direct(Ok(session))) => {
                return Ok(SshSession {
                    session,
                    through: None,
                });
            }
            Some(Attempt::Through(Ok(session))) => {
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

/// Time for which the direct attempt runs alone.
const HEAD_START: Duration = Duration::from_secs(1);
/// Interval at which a stop request is checked for.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
