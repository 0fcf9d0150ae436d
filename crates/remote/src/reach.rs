//! Sessions with the remote side of a place: a daemon, or a program that ssh starts there.

use std::sync::Arc;

use crate::error::Fault;
use lighthaul_base::{PortRange, counted};
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_session::error::Error;
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

use crate::daemon::Daemon;
use crate::dial::{connect, dial};
use crate::place::Place;
use crate::ssh::command::Ssh;
use crate::ssh::install::Install;
use crate::ssh::reach as ssh;
use crate::ssh::route::SshRoute;
use crate::ssh::start::{Started, Wanted, start};

/// Settings of the connection to another host.
#[derive(Clone, Debug)]
pub struct Route {
    /// ssh command and its options.
    pub ssh: String,
    /// Program that ssh starts there.
    pub program: String,
    /// Permission to install a copy of this program, if there is none.
    pub install: Install,
    /// Ports for the program that ssh starts there.
    pub ports: Option<PortRange>,
    /// True if much data may follow, so that several connections pay.
    pub is_bulk: bool,
    /// Gateway on the way.
    pub gateway: Option<ProxyAddress>,
    /// Daemon to connect to, for places with one.
    pub daemon: Daemon,
}

/// Session with the remote side of a place.
#[derive(Debug)]
pub struct Reached {
    /// The session.
    pub session: Session,
    /// Route of the session through ssh, if the port of the far side is closed.
    pub through_ssh: Option<Arc<SshRoute>>,
    /// Process that ssh started; it ends with this value.
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

/// Reaches the far side of `place`, which is started first if it is behind ssh.
pub fn reach(via: &Route, place: &Place) -> Result<Reached, Error> {
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
            };
            let started = start(Ssh::new(&via.ssh, host)?, wanted, &identity)?;
            if let Some(gateway) = &via.gateway {
                let session = connect(Some(gateway), &started.host, started.port, &identity)?;
                if session.peer != started.key {
                    return Err(Fault::OtherHost.into());
                }
                return Ok(Reached::directly(session, Some(started)));
            }
            let found = ssh::connect(&started, (via.ports, via.is_bulk), &identity)?;
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
    let reached = reach(via, place)?;
    reached.session.ask::<M>(Hello::about::<M>(request))?;
    agreed(&reached.session)?;
    Ok(reached)
}

/// Waits until the peer accepts the request. Returns the names of its protocols.
pub fn agreed(session: &Session) -> Result<Vec<String>, Error> {
    let Message::Welcome { protocols } = session.hear()? else {
        return Err(Fault::NotAccepted.into());
    };
    Ok(protocols)
}
