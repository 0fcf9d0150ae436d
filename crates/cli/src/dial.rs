//! Calling a daemon, which must show the key that it is known by.

use std::path::Path;

use lighthaul_daemon::client::{call, call_through};
use lighthaul_daemon::known::{self, Known};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_transfer::credential::Credential;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::message::Message;
use lighthaul_transfer::session::Session;

use crate::args::Far;
use crate::passage::Through;
use crate::print::say;
use crate::remote::PORT;
use crate::{credential, places};

/// Calls the daemon at `host` and `port`. What is called for the first time is known from then on,
/// unless somebody wants to know it before.
pub(crate) fn dial(
    far: &Far,
    through: Option<&Through>,
    host: &str,
    port: u16,
) -> Result<Session, Error> {
    let identity = load_key(&far.key.path.clone().unwrap_or_else(places::user_key))?;
    let credential = credential::ours(far)?;
    // whoever gets a token can use it, so it is not said to somebody who was never met
    let strict = far.strict || matches!(credential, Some(Credential::Token(_)));
    let session = connect(through, host, port, &identity)?;
    check(far, strict, &name(host, port), session.peer)?;
    if let Some(credential) = credential {
        session.say(&Message::Credential(credential))?;
    }
    Ok(session)
}

/// A session with whoever listens at `host` and `port`, through a gateway if there is one.
pub(crate) fn connect(
    through: Option<&Through>,
    host: &str,
    port: u16,
    identity: &Identity,
) -> Result<Session, Error> {
    match through.and_then(|through| through.gateway.as_ref()) {
        Some(gateway) => call_through(gateway, host, port, identity),
        None => call(host, port, identity),
    }
}

/// The key in the file at `path`, made there if it is missing.
pub(crate) fn load_key(path: &Path) -> Result<Identity, Error> {
    Identity::load_or_generate(path)
        .map_err(|e| Error::file(Code::Permission, "cannot use the key", path, &e))
}

/// Refuses a daemon whose key is not the one that is known.
fn check(far: &Far, strict: bool, name: &str, shown: Fingerprint) -> Result<(), Error> {
    let known = judge(far.pin.as_deref(), strict, name, shown)?;
    let text = match known {
        Known::Same => return Ok(()),
        Known::New if !strict => {
            say(&format!(
                "lighthaul: {name} is new here, and known by {shown} from now on"
            ));
            return Ok(());
        }
        Known::New => format!(
            "{name} shows the key {shown}, which is not known here: compare it with `lighthaul \
             key --host` there, then accept it with `lighthaul trust {name} {shown}`"
        ),
        Known::Other(known) if far.pin.is_some() => format!(
            "{name} shows the key {shown}, but --pin says {known}: somebody may be in between, or --pin is wrong; compare \
             with `lighthaul key --host` there"
        ),
        Known::Other(known) => format!(
            "{name} shows the key {shown}, but {known} is expected: somebody may be in between; \
             if its key did change, accept it with `lighthaul trust --replace {name} {shown}`"
        ),
        Known::Unclear(nth) => return Err(unclear(&places::known_hosts(), nth, name)),
    };
    Err(Error::new(Code::Permission, text))
}

/// Why a host whose line in the list of known hosts makes no sense is not called.
pub(crate) fn unclear(path: &Path, nth: usize, name: &str) -> Error {
    let text = format!(
        "line {nth} of {} is about {name} and has no key that makes sense: correct or remove it",
        path.display()
    );
    Error::new(Code::Permission, text)
}

/// What is known of the daemon `name`, which shows the key `shown`.
pub(crate) fn judge(
    pin: Option<&str>,
    strict: bool,
    name: &str,
    shown: Fingerprint,
) -> Result<Known, Error> {
    if let Some(pin) = pin {
        return match pin.parse() {
            Ok(pin) if pin == shown => Ok(Known::Same),
            Ok(pin) => Ok(Known::Other(pin)),
            Err(e) => Err(Error::new(Code::Usage, format!("{e}"))),
        };
    }
    let path = places::known_hosts();
    let look = if strict { known::look } else { known::meet };
    look(&path, name, shown).map_err(|e| {
        let what = "cannot keep known keys (give this one with --pin instead) in";
        Error::file(Code::Permission, what, &path, &e)
    })
}

/// What a daemon is called in the file of known hosts.
pub(crate) fn name(host: &str, port: u16) -> String {
    if port == PORT {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    }
}
