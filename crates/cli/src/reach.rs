//! Reaching the far side of a place: a daemon, or a program that ssh starts there.

use clap::Args;
use lighthaul_daemon::client::{Started, start_over_ssh};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::message::{Hello, Message, Request, VERSION};
use lighthaul_transfer::options::Options;
use lighthaul_transfer::protocol;
use lighthaul_transfer::session::Session;

use crate::args::Far;
use crate::dial::{connect, dial};
use crate::passage::Through;
use crate::remote::Place;

/// How the far side of a place is reached.
#[derive(Args, Clone, Debug)]
pub(crate) struct Via {
    /// The ssh command, with options
    #[arg(short = 'e', long, default_value = "ssh", env = "LIGHTHAUL_SSH")]
    pub(crate) ssh: String,
    /// The lighthaul to start on the far side
    #[arg(
        long,
        default_value = "lighthaul",
        value_name = "PROGRAM",
        env = "LIGHTHAUL_REMOTE"
    )]
    pub(crate) remote: String,
    #[command(flatten)]
    pub(crate) through: Through,
    #[command(flatten)]
    pub(crate) far: Far,
}

/// A session with the far side of a place.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) session: Session,
    /// What ssh started; it ends with this.
    pub(crate) started: Option<Started>,
}

/// Reaches the far side of `place`, which is started first if it is behind ssh.
pub(crate) fn reach(via: &Via, place: &Place) -> Result<Reached, Error> {
    match place {
        Place::Here(_) => Err(Error::new(Code::Usage, "neither side is remote")),
        Place::Daemon { host, port, .. } => Ok(Reached {
            session: dial(&via.far, Some(&via.through), host, *port)?,
            started: None,
        }),
        Place::Ssh { host, .. } => {
            let identity = Identity::generate();
            let ssh: Vec<String> = via.ssh.split_whitespace().map(str::to_owned).collect();
            let started = start_over_ssh(&ssh, host, &via.remote, &identity)?;
            let session = connect(Some(&via.through), &started.host, started.port, &identity)?;
            if session.peer != started.key {
                let text = "somebody else answered in its place";
                return Err(Error::new(Code::Permission, text));
            }
            Ok(Reached {
                session,
                started: Some(started),
            })
        }
    }
}

/// Reaches the far side of `place` and asks for `request`, to which it agreed.
pub(crate) fn ask(via: &Via, place: &Place, request: Request) -> Result<Reached, Error> {
    let reached = reach(via, place)?;
    reached.session.say(&Message::Hello(hello(request)))?;
    agreed(&reached.session)?;
    Ok(reached)
}

/// Waits for the far side to agree to what we want; answers the names of the protocols that it has.
pub(crate) fn agreed(session: &Session) -> Result<Vec<String>, Error> {
    let Message::Welcome(theirs) = session.hear()? else {
        return Err(Error::new(Code::Protocol, "the far side did not agree"));
    };
    Ok(theirs)
}

/// What we want, where no file crosses.
pub(crate) fn hello(request: Request) -> Hello {
    Hello {
        version: VERSION,
        request,
        plain: false,
        rate_bps: None,
        limit: String::new(),
        options: Options::default(),
        protocols: protocol::names(),
    }
}
