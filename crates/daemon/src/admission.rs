//! From a connection to somebody with a name and rights, or to somebody who was turned away.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lighthaul_io::identity::Fingerprint;
use lighthaul_io::tcp;
use lighthaul_transfer::credential::Credential;
use lighthaul_transfer::error::Error;
use lighthaul_transfer::join::Join;
use lighthaul_transfer::message::Message;
use lighthaul_transfer::relay::Relayed;
use lighthaul_transfer::session::Session;

use crate::invitation::Invitation;
use crate::rights::Rights;
use crate::serve::Service;
use crate::standing::NotAllowed;

/// Somebody who was let in.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) session: Session,
    /// What it may do, as far as that was known when it came.
    pub(crate) rights: Rights,
    /// Whose share of the daemon it uses.
    pub(crate) identity: Fingerprint,
    pub(crate) ticket: Ticket,
}

/// What somebody was let in for.
#[derive(Debug)]
pub(crate) enum Ticket {
    /// Its key, or what it showed besides.
    Own(Option<Credential>),
    /// The word of somebody else.
    Invited(Box<Invitation>),
    /// The session that it belongs to.
    Join(Join),
}

/// Why somebody was not let in.
#[derive(Debug)]
pub(crate) enum NotAdmitted {
    /// No key was shown: a scanner, a line that broke, somebody who never spoke.
    Handshake(Error),
    /// This key was shown, of which nothing is known.
    Unknown(Fingerprint),
    /// This key was shown, and may not call.
    Refused(Fingerprint, Error),
}

/// Shakes hands, and turns away whoever is not welcome.
pub(crate) fn admit(tcp: TcpStream, service: &Service) -> Result<Guest, NotAdmitted> {
    let settings = &service.settings;
    let tcp = tcp::patient(tcp).map_err(|e| NotAdmitted::Handshake(e.into()))?;
    let mut session = Session::meet(tcp, &settings.identity).map_err(NotAdmitted::Handshake)?;
    match ticket(&session, service) {
        Ok((rights, identity, ticket)) => {
            session.control.trust();
            if let Ticket::Invited(invitation) = &ticket {
                session.halt = Arc::clone(&invitation.halt);
            }
            Ok(Guest {
                session,
                rights,
                identity,
                ticket,
            })
        }
        Err(why) => {
            let key = session.peer;
            let is_unknown = why == NotAllowed::Unknown;
            let error = why.tell(key, service.allow_options());
            session.give_up_within(&error, FAREWELL);
            Err(if is_unknown {
                NotAdmitted::Unknown(key)
            } else {
                NotAdmitted::Refused(key, error)
            })
        }
    }
}

/// What lets the caller in, what it may do and whose share it uses: its key if that is listed, or what it shows first.
fn ticket(
    session: &Session,
    service: &Service,
) -> Result<(Rights, Fingerprint, Ticket), NotAllowed> {
    let (key, judge) = (session.peer, &service.judge);
    let unknown = match judge.rights(key, None) {
        Ok((rights, identity)) => {
            return Ok((service.beneath(rights), identity, Ticket::Own(None)));
        }
        Err(why) => why,
    };
    match session.hear_for(PATIENCE) {
        Ok(Message::Credential(credential)) => {
            let (rights, identity) = judge.rights(key, Some(&credential))?;
            let ticket = Ticket::Own(Some(credential));
            Ok((service.beneath(rights), identity, ticket))
        }
        // who does not say so cannot be made a guest by somebody who knows its key
        Ok(Message::Relayed(Relayed::Guest)) => {
            let invitation = service.invitations.take(key).ok_or(unknown)?;
            let (rights, identity) = (invitation.rights.clone(), invitation.identity);
            Ok((rights, identity, Ticket::Invited(Box::new(invitation))))
        }
        // its key may have been let in for once
        Ok(Message::Join(join)) => match service.joins.check(key, &join) {
            Ok(identity) => Ok((Rights::default(), identity, Ticket::Join(join))),
            Err(_) => Err(unknown),
        },
        _ => Err(unknown),
    }
}

/// How long a caller whose key is not listed may take to show something else.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a caller that is sent away may take to hear why.
pub(crate) const FAREWELL: Duration = Duration::from_millis(500);

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
