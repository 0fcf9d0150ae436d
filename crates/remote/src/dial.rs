//! Connections to a daemon, which must have its known key.

use std::path::Path;

use crate::error::Fault;
use lighthaul_daemon::client::{call, call_through};
use lighthaul_daemon::known_hosts::{self, KeyCheck};
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_session::credential::Credential;
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::message::Message;
use lighthaul_session::session::Session;

use crate::credential;
use crate::daemon::Daemon;
use crate::paths;
use crate::place::PORT;

/// Connects to the daemon at `host` and `port`. The key of an unknown daemon is added to the known ones, unless
/// `--strict` or a token forbids it.
pub fn dial(
    far: &Daemon,
    through: Option<&ProxyAddress>,
    host: &str,
    port: u16,
) -> Result<Session, Error> {
    let identity = load_key(&far.key.clone().unwrap_or_else(paths::user_key))?;
    let credential = credential::ours(far)?;
    // the receiver of a token can use it, so it is not sent to an unknown daemon
    let strict = far.strict || matches!(credential, Some(Credential::Token(_)));
    let session = connect(through, host, port, &identity)?;
    check(far, strict, &name(host, port), session.peer)?;
    if let Some(credential) = credential {
        session.say(&Message::Credential(credential))?;
    }
    Ok(session)
}

/// Returns a session with the process that listens at `host` and `port`, through a gateway if one is given.
pub fn connect(
    through: Option<&ProxyAddress>,
    host: &str,
    port: u16,
    identity: &Identity,
) -> Result<Session, Error> {
    match through {
        Some(gateway) => call_through(gateway, host, port, identity),
        None => call(host, port, identity),
    }
}

/// Returns the key in the file at `path`, which is created if missing.
pub fn load_key(path: &Path) -> Result<Identity, Error> {
    Identity::load_or_generate(path).map_err(|e| Error::file(FileAction::ReadKeys, path, &e))
}

/// Refuses a daemon whose key differs from the known key.
fn check(far: &Daemon, strict: bool, name: &str, shown: Fingerprint) -> Result<(), Error> {
    let known = judge(
        &far.known_hosts(),
        far.pin.as_deref(),
        strict,
        (name, shown),
    )?;
    let text = match known {
        KeyCheck::Matches => return Ok(()),
        KeyCheck::New if !strict => {
            far.user.tell(&format!(
                "{name} is unknown here; its key {shown} is trusted from now on"
            ));
            return Ok(());
        }
        KeyCheck::New => format!(
            "{name} shows the key {shown}, which is not known here: compare it with `lighthaul \
             key --host` there, then accept it with `lighthaul trust {name} {shown}`"
        ),
        KeyCheck::Changed(known) if far.pin.is_some() => format!(
            "{name} shows the key {shown}, but --pin says {known}: another host may be answering in its place, or --pin is wrong; compare \
             with `lighthaul key --host` there"
        ),
        KeyCheck::Changed(known) => format!(
            "{name} shows the key {shown}, but {known} is expected: another host may be answering in its place; \
             if its key has changed, accept it with `lighthaul trust --replace {name} {shown}`"
        ),
        KeyCheck::Malformed(nth) => return Err(unclear(&far.known_hosts(), nth, name)),
    };
    Err(Fault::HostKey(text).into())
}

/// Returns the error for a host with a malformed line in the list of known hosts.
pub fn unclear(path: &Path, nth: usize, name: &str) -> Error {
    Fault::KnownLine {
        path: path.to_owned(),
        nth,
        name: name.to_owned(),
    }
    .into()
}

/// Compares the key `shown` with the known key of the daemon `name`.
pub fn judge(
    path: &Path,
    pin: Option<&str>,
    strict: bool,
    (name, shown): (&str, Fingerprint),
) -> Result<KeyCheck, Error> {
    if let Some(pin) = pin {
        return match pin.parse() {
            Ok(pin) if pin == shown => Ok(KeyCheck::Matches),
            Ok(pin) => Ok(KeyCheck::Changed(pin)),
            Err(e) => Err(Fault::KeyText(format!("{e}")).into()),
        };
    }
    let lookup = if strict {
        known_hosts::lookup
    } else {
        known_hosts::lookup_or_add
    };
    lookup(path, name, shown).map_err(|e| Error::file(FileAction::KeepKnown, path, &e))
}

/// Returns the name of a daemon in the file of known hosts.
pub fn name(host: &str, port: u16) -> String {
    if port == PORT {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    }
}
