//! Sessions with the remote side of a place: a daemon, or a program that ssh starts there.

use lighthaul_daemon::client::{Started, start_over_ssh};
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

use crate::daemon::Daemon;
use crate::dial::{connect, dial};
use crate::place::Place;

/// Settings of the connection to another host.
#[derive(Clone, Debug)]
pub struct Route {
    /// ssh command and its options.
    pub ssh: String,
    /// Program that ssh starts there.
    pub program: String,
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
    /// Process that ssh started; it ends with this value.
    pub started: Option<Started>,
}

/// Connects to the remote side of `place`. With ssh, this starts it.
pub fn reach(via: &Route, place: &Place) -> Result<Reached, Error> {
    match place {
        Place::Here(_) => Err(Error::new(Code::Usage, "neither side is remote")),
        Place::Daemon { host, port, .. } => Ok(Reached {
            session: dial(&via.daemon, via.gateway.as_ref(), host, *port)?,
            started: None,
        }),
        Place::Ssh { host, .. } => {
            let identity = Identity::generate();
            let ssh: Vec<String> = via.ssh.split_whitespace().map(str::to_owned).collect();
            let started = start_over_ssh(&ssh, host, &via.program, &identity)?;
            let session = connect(via.gateway.as_ref(), &started.host, started.port, &identity)?;
            if session.peer != started.key {
                let text = "another host answered in its place";
                return Err(Error::new(Code::Permission, text));
            }
            Ok(Reached {
                session,
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
        return Err(Error::new(
            Code::Protocol,
            "the peer did not accept the request",
        ));
    };
    Ok(protocols)
}
