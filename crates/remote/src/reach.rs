//! Sessions with the remote side of a place: a daemon, or a program that ssh starts.
//!
//! [`open`] and [`ask`] connect by a [`Route`] and send a request; [`reach`] only connects. The
//! result is a [`Reached`], which keeps the ssh process alive. A daemon is called directly or
//! through a gateway. A program behind ssh is called at its own port, and through ssh if that port
//! is closed. If the ssh process dies meanwhile, the attempt is repeated once. Later losses are
//! left to the caller.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Fault;
use lighthaul_base::{PortRange, counted};
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

use crate::daemon::Daemon;
use crate::dial::{connect, dial};
use crate::place::Place;
use crate::ssh::command::Ssh;
use crate::ssh::error::SshError;
use crate::ssh::install::Install;
use crate::ssh::reach as ssh;
use crate::ssh::route::SshRoute;
use crate::ssh::start::{PATIENCE, Started, Wanted, is_shared_now, start};
use crate::user::User;

/// Settings of the connection to another host.
#[derive(Clone, Debug)]
pub struct Route {
    /// ssh command and its options.
    pub ssh: String,
    /// Program that ssh starts on the remote host.
    pub program: String,
    /// Permission to install a copy of this program, if the host has none.
    pub install: Install,
    /// Ports for the program that ssh starts.
    pub ports: Option<PortRange>,
    /// Longest silence of that program after the login.
    pub patience: Duration,
    /// True if much data may follow, so that several connections are worthwhile.
    pub is_bulk: bool,
    /// Gateway on the path.
    pub gateway: Option<ProxyAddress>,
    /// Daemon to connect to, for places that name a daemon.
    pub daemon: Daemon,
}

impl Default for Route {
    /// Returns the direct route, with `ssh` and the program `lighthaul` for hosts without a daemon.
    fn default() -> Self {
        Self {
            ssh: "ssh".to_owned(),
            program: "lighthaul".to_owned(),
            install: Install::Ask,
            ports: None,
            patience: PATIENCE,
            is_bulk: false,
            gateway: None,
            daemon: Daemon::default(),
        }
    }
}

/// Session with the remote side of a place.
#[derive(Debug)]
pub struct Reached {
    /// The session.
    pub session: Session,
    /// Route of the session through ssh, if the port of the far side is closed.
    pub through_ssh: Option<Arc<SshRoute>>,
    /// Process that ssh started; the process ends on drop.
    pub started: Option<Started>,
}

impl Reached {
    fn directly(session: Session, started: Option<Started>) -> Self {
        Self {
            session,
            through_ssh: None,
            started,
        }
    }

    /// Returns the error with the name of the host instead of the local address that leads to ssh.
    pub fn name_host(&self, error: Error) -> Error {
        let Some(started) = self.started.as_ref().filter(|_| self.through_ssh.is_some()) else {
            return error;
        };
        let text = error.text();
        let named = local_peer_named(&text, &started.ssh.host);
        if named == text {
            return error;
        }
        let code = error.code();
        Fault::Named { code, text: named }.into()
    }

    /// Returns a sentence about the route, if the data goes through ssh.
    pub fn route(&self) -> Option<String> {
        let (route, started) = (self.through_ssh.as_ref()?, self.started.as_ref()?);
        let host = &started.ssh.host;
        let connections = route.further_connections().max(1);
        let connections = counted(connections.into(), "connection", "connections");
        Some(format!(
            "ports of {host} are closed; data goes through ssh ({connections})"
        ))
    }
}

/// Failed attempt to reach the remote side of a place.
struct Failed {
    error: Error,
    /// True if an ssh process died, so that another attempt may succeed.
    is_loss: bool,
}

impl<F: Into<Error>> From<F> for Failed {
    fn from(fault: F) -> Self {
        let (error, is_loss) = (fault.into(), false);
        Self { error, is_loss }
    }
}

/// Reaches the remote side of `place`, and starts it over ssh if needed.
pub fn reach(via: &Route, place: &Place) -> Result<Reached, Error> {
    repeat_after_loss(&*via.daemon.user, || attempt(via, place))
}

/// Makes another attempt if an ssh process dies during the first attempt.
fn repeat_after_loss<T>(
    user: &dyn User,
    attempt: impl Fn() -> Result<T, Failed>,
) -> Result<T, Error> {
    let result = match attempt() {
        Err(Failed {
            error,
            is_loss: true,
        }) => {
            interrupt::check()?;
            user.tell(&format!("{error}; trying once more"));
            attempt()
        }
        result => result,
    };
    result.map_err(|failed| failed.error)
}

/// Returns the failure after ssh has started the far side. `error` names the host if the ssh process has died.
fn lost(started: &mut Started, error: Error) -> Failed {
    let is_loss = error.code() == Code::Network && started.has_ended();
    let error = if is_loss {
        let why = local_peer_named(&error.text(), "ssh");
        let host = started.ssh.host.clone();
        SshError::Lost { host, why }.into()
    } else {
        error
    };
    Failed { error, is_loss }
}

fn attempt(via: &Route, place: &Place) -> Result<Reached, Failed> {
    match place {
        Place::Here(_) => Err(Fault::NotRemote.into()),
        Place::Daemon { host, port, .. } => {
            let session = dial(&via.daemon, via.gateway.as_ref(), host, *port)?;
            Ok(Reached::directly(session, None))
        }
        Place::Ssh { host, .. } => {
            let identity = Identity::generate();
            let wanted = Wanted {
                program: &via.program,
                ports: via.ports,
                install: via.install,
                patience: via.patience,
                user: &*via.daemon.user,
            };
            let ssh = Ssh::new(&via.ssh, host)?;
            let had_login = ssh.config.is_shared && is_shared_now(&ssh);
            let is_bulk = via.is_bulk && via.gateway.is_none();
            let route = SshRoute::new(&ssh, &via.program, is_bulk);
            let mut started = start(ssh, wanted, &identity).map_err(|error| Failed {
                is_loss: had_login && error.code() == Code::Network,
                error,
            })?;
            if let Some(gateway) = &via.gateway {
                let session = connect(Some(gateway), &started.host, started.port, &identity)?;
                if session.peer != started.key {
                    return Err(Fault::OtherHost.into());
                }
                return Ok(Reached::directly(session, Some(started)));
            }
            let found = ssh::connect(&started, route, (via.ports, via.is_bulk), &identity);
            let found = found.map_err(|error| lost(&mut started, error))?;
            Ok(Reached {
                session: found.session,
                through_ssh: found.through.map(|(route, _)| route),
                started: Some(started),
            })
        }
    }
}

/// Connects to the remote side of `place` and sends `request` of topic `M`. Returns when the peer has accepted it.
pub fn ask<M: Topic>(via: &Route, place: &Place, request: &M::Request) -> Result<Reached, Error> {
    let hello = |_: &Reached| Ok(Hello::about::<M>(request));
    open::<M>(via, place, hello, Agreement::Awaited)
}

/// Time at which a request counts as accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Answer of the far side.
    Awaited,
    /// At once, since a refusal arrives with the next messages. A program that ssh has started
    /// still answers first, so that another daemon can be started if ssh dies.
    Expected,
}

/// Connects to the remote side of `place` and sends a request of topic `M`, which `hello` creates for the route in use.
/// Returns when the peer has accepted the request, if that is awaited.
pub fn open<M: Topic>(
    via: &Route,
    place: &Place,
    hello: impl Fn(&Reached) -> Result<Hello, Error>,
    agreement: Agreement,
) -> Result<Reached, Error> {
    repeat_after_loss(&*via.daemon.user, || {
        let mut reached = attempt(via, place)?;
        let request = hello(&reached)?;
        let session = &reached.session;
        let asked = if agreement == Agreement::Expected && reached.started.is_none() {
            session.ask_ahead::<M>(request)
        } else {
            session.ask::<M>(request).and_then(|()| agreed(session))
        };
        match (asked, &mut reached.started) {
            (Ok(()), _) => Ok(reached),
            (Err(error), Some(started)) => Err(lost(started, error)),
            (Err(error), None) => Err(error.into()),
        }
    })
}

/// Returns `text` with `name` instead of the local address that leads to ssh.
fn local_peer_named(text: &str, name: &str) -> String {
    let Some((before, rest)) = text.split_once("127.0.0.1:") else {
        return text.to_owned();
    };
    let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    format!("{before}{name}{rest}")
}

/// Waits until the peer accepts the request.
pub fn agreed(session: &Session) -> Result<(), Error> {
    let Message::Welcome = session.hear()? else {
        return Err(Fault::NotAccepted.into());
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::user::Unattended;

    #[test]
    fn attempt_is_repeated_only_after_the_loss_of_an_ssh_process() {
        for (is_loss, expected) in [(true, 2), (false, 1)] {
            let attempts = Cell::new(0);
            let result = repeat_after_loss(&Unattended, || -> Result<(), Failed> {
                attempts.set(attempts.get() + 1);
                let error = Fault::NoResult.into();
                Err(Failed { error, is_loss })
            });
            assert!(result.is_err());
            assert_eq!(attempts.get(), expected);
        }
        let attempts = Cell::new(0);
        let second = repeat_after_loss(&Unattended, || {
            attempts.set(attempts.get() + 1);
            let (error, is_loss) = (Fault::NoResult.into(), true);
            match attempts.get() {
                1 => Err(Failed { error, is_loss }),
                nth => Ok(nth),
            }
        });
        assert_eq!(second, Ok(2));
    }

    #[test]
    fn local_address_gets_the_name_of_the_host() {
        let text = "the connection to 127.0.0.1:41919 was lost: end of file";
        let named = "the connection to far was lost: end of file";
        assert_eq!(local_peer_named(text, "far"), named);
        assert_eq!(local_peer_named(named, "far"), named);
    }
}
