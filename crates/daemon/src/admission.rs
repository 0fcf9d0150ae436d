//! From a connection to somebody with a name and rights, or to somebody who was turned away.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lighthaul_io::clock::unix_nanos;
use lighthaul_io::identity::Fingerprint;
use lighthaul_io::tcp;
use lighthaul_transfer::credential::Credential;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::join::Join;
use lighthaul_transfer::message::Message;
use lighthaul_transfer::relay::Relayed;
use lighthaul_transfer::session::Session;

use crate::allowed::Allowed;
use crate::invitation::Invitation;
use crate::rights::Rights;
use crate::serve::{Service, Welcome};
use crate::statement;

/// Somebody who was let in.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) session: Session,
    pub(crate) rights: Rights,
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
    /// This key was shown, and may not call.
    Refused(Fingerprint, Error),
}

/// Shakes hands, and turns away whoever is not welcome.
pub(crate) fn admit(tcp: TcpStream, service: &Service) -> Result<Guest, NotAdmitted> {
    let settings = &service.settings;
    let tcp = tcp::patient(tcp).map_err(|e| NotAdmitted::Handshake(e.into()))?;
    let mut session = Session::meet(tcp, &settings.identity).map_err(NotAdmitted::Handshake)?;
    match ticket(&session, service) {
        Ok((rights, ticket)) => {
            session.control.trust();
            if let Ticket::Invited(invitation) = &ticket {
                session.halt = Arc::clone(&invitation.halt);
            }
            Ok(Guest {
                session,
                rights,
                ticket,
            })
        }
        Err(error) => {
            session.give_up(&error);
            Err(NotAdmitted::Refused(session.peer, error))
        }
    }
}

/// What lets the caller in, and what it may do: its key if that is listed, or what it shows first.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else a stranger says lets nobody in"
)]
fn ticket(session: &Session, service: &Service) -> Result<(Rights, Ticket), Error> {
    let (key, welcome) = (session.peer, &service.settings.welcome);
    let beneath = |rights: Rights| rights.beneath(service.settings.root.as_deref());
    let error = match judge(key, None, welcome) {
        Ok(rights) => return Ok((beneath(rights), Ticket::Own(None))),
        Err(error) => error,
    };
    match session.hear_for(PATIENCE)? {
        Message::Credential(credential) => {
            let rights = judge(key, Some(&credential), welcome)?;
            Ok((beneath(rights), Ticket::Own(Some(credential))))
        }
        // who does not say so cannot be made a guest by somebody who knows its key
        Message::Relayed(Relayed::Guest) => {
            let invitation = service.invitations.take(key).ok_or(error)?;
            let rights = invitation.rights.clone();
            Ok((rights, Ticket::Invited(Box::new(invitation))))
        }
        // its key may have been let in for once
        Message::Join(join) if service.joins.check(key, &join).is_ok() => {
            Ok((Rights::default(), Ticket::Join(join)))
        }
        _ => Err(error),
    }
}

/// What the holder of `key` may do now: because that is listed, or because of what else it shows.
pub(crate) fn judge(
    key: Fingerprint,
    credential: Option<&Credential>,
    welcome: &Welcome,
) -> Result<Rights, Error> {
    let (keys, tokens) = match welcome {
        Welcome::Only(only) if *only == key => return Ok(Rights::default()),
        Welcome::Only(_) => return Err(stranger(key)),
        Welcome::Listed { keys, tokens } => (keys, tokens),
    };
    let now = unix_nanos() / 1_000_000_000;
    let keys = Allowed::load(keys).map_err(|_| unreadable())?;
    if keys.is_denied(key) {
        return Err(stranger(key));
    }
    let listed = keys.rights(key);
    let expired = listed.is_some();
    if let Some(rights) = listed.filter(|rights| rights.hold_at(now)) {
        return Ok(rights);
    }
    let granted = match credential {
        None if expired => return Err(refuse(EXPIRED)),
        None => return Err(stranger(key)),
        Some(credential) if !credential.is_bounded() => return Err(stranger(key)),
        Some(Credential::Token(token)) => Allowed::load(tokens)
            .map_err(|_| unreadable())?
            .rights(Fingerprint::of_token(token))
            .ok_or_else(|| refuse("your token is not known there"))?,
        Some(Credential::Statement(octets)) => vouched(octets, key, &keys, now)?,
    };
    if !granted.hold_at(now) {
        return Err(refuse(EXPIRED));
    }
    Ok(granted)
}

/// What a statement of an authority lets the holder of `key` do: what it says, as far as the authority
/// may grant it.
fn vouched(octets: &[u8], key: Fingerprint, keys: &Allowed, now: u64) -> Result<Rights, Error> {
    let (authority, claimed) = statement::read(octets, key, now)
        .map_err(|why| refuse(&format!("your statement is not taken there: {why}")))?;
    let most = keys
        .authority(authority)
        .ok_or_else(|| refuse("who signed your statement is no authority there"))?;
    Ok(Rights {
        root: most.root,
        within: claimed.root,
        name: claimed.name,
        read_only: claimed.read_only || most.read_only,
        gateway: claimed.gateway && most.gateway,
        expires: claimed.expires.into_iter().chain(most.expires).min(),
    })
}

const EXPIRED: &str = "what lets you in there has expired";

fn refuse(text: &str) -> Error {
    Error::new(Code::Permission, text)
}

fn stranger(key: Fingerprint) -> Error {
    refuse(&format!(
        "your key is not allowed there; its operator can add it with `lighthaul allow {key}`"
    ))
}

fn unreadable() -> Error {
    refuse("who may call cannot be read there; its operator has to see to that")
}

/// How long a caller whose key is not listed may take to show something else.
const PATIENCE: Duration = Duration::from_secs(5);

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
