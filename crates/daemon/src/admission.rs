//! From a connection to somebody with a name and rights, or to somebody who was turned away.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

use lighthaul_io::clock::unix_nanos;
use lighthaul_io::identity::Fingerprint;
use lighthaul_io::tcp;
use lighthaul_io::tls::Side;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::session::Session;

use crate::allowed::Allowed;
use crate::rights::Rights;
use crate::serve::{Settings, Welcome};

/// Somebody who was let in.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) session: Session,
    pub(crate) rights: Rights,
}

/// Why somebody was not let in.
#[derive(Debug)]
pub(crate) enum NotAdmitted {
    /// No key was shown: a scanner, a line that broke, somebody who never spoke.
    Handshake(Error),
    /// This key was shown, and may not call.
    Refused(Fingerprint, Error),
}

/// Shakes hands, and turns away whoever is not welcome.
pub(crate) fn admit(tcp: TcpStream, settings: &Settings) -> Result<Guest, NotAdmitted> {
    let tcp = tcp::patient(tcp).map_err(|e| NotAdmitted::Handshake(e.into()))?;
    let session =
        Session::start(tcp, Side::Server, &settings.identity).map_err(NotAdmitted::Handshake)?;
    match rights(session.peer, settings) {
        Ok(rights) => Ok(Guest { session, rights }),
        Err(error) => {
            session.give_up(&error);
            Err(NotAdmitted::Refused(session.peer, error))
        }
    }
}

/// What the holder of `key` may do, if it is welcome.
fn rights(key: Fingerprint, settings: &Settings) -> Result<Rights, Error> {
    let rights = match &settings.welcome {
        Welcome::Only(only) => (*only == key).then(Rights::default),
        Welcome::Listed(path) => Allowed::load(path).map_err(|_| unreadable())?.rights(key),
    };
    let rights = rights.filter(|rights| rights.hold_at(unix_nanos() / 1_000_000_000));
    let rights = rights.map(|rights| rights.beneath(settings.root.as_deref()));
    rights.ok_or_else(|| {
        let text = format!(
            "your key is not allowed there; its operator can add it with `lighthaul allow {key}`"
        );
        Error::new(Code::Permission, text)
    })
}

fn unreadable() -> Error {
    let text = "the keys that may call cannot be read there; its operator has to see to that";
    Error::new(Code::Permission, text)
}

/// Keys that were refused, so that each is logged once and not with every call.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    keys: Mutex<BTreeSet<Fingerprint>>,
}

impl Refused {
    /// Whether `key` is refused for the first time; beyond so many keys, nobody is told any more.
    pub(crate) fn is_news(&self, key: Fingerprint) -> bool {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.len() < KEYS_MAX && keys.insert(key)
    }
}

/// Keys are made in no time; a log has an end.
const KEYS_MAX: usize = 1000;
