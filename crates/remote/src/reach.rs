//! Reaching the far side of a place: a daemon, or a program that ssh starts there.

use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

use crate::daemon::Daemon;
use crate::dial::{connect, dial};
use crate::place::Place;
use crate::ssh::start::{Started, start_over_ssh};

/// Way to another host.
#[derive(Clone, Debug)]
pub struct Route {
    /// ssh command and its options.
    pub ssh: String,
    /// Program that ssh starts there.
    pub program: String,
    /// Gateway on the way.
    pub gateway: Option<ProxyAddress>,
    /// Daemon to call, for places behind one.
    pub daemon: Daemon,
}

/// A session with the far side of a place.
#[derive(Debug)]
pub struct Reached {
    /// The session.
    pub session: Session,
    /// Process that ssh started; it ends with this value.
    pub started: Option<Started>,
}

/// Reaches the far side of `place`, which is started first if it is behind ssh.
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

/// Reaches the far side of `place` and asks for `request` of topic `M`, to which it agreed.
pub fn ask<M: Topic>(via: &Route, place: &Place, request: &M::Request) -> Result<Reached, Error> {
    let reached = reach(via, place)?;
    reached.session.ask::<M>(Hello::about::<M>(request))?;
    agreed(&reached.session)?;
    Ok(reached)
}

/// Waits for the far side to agree to what we want; answers the names of the protocols that it has.
pub fn agreed(session: &Session) -> Result<Vec<String>, Error> {
    let Message::Welcome { protocols } = session.hear()? else {
        return Err(Error::new(Code::Protocol, "the far side did not agree"));
    };
    Ok(protocols)
}
