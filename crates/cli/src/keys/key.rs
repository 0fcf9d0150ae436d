//! `lighthaul key`, `allow`, `deny` and `trust`.

use std::path::Path;

use lighthaul_daemon::known_hosts::KeyCheck;
use lighthaul_daemon::{allowed_keys, known_hosts};
use lighthaul_grammar::keys::{Allow, Deny, Key, Trust};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls;
use lighthaul_remote::dial::{load_key, unclear};
use lighthaul_remote::paths;
use lighthaul_session::error::{Error, FileAction};

use crate::error::Fault;
use crate::keys::rights::{fingerprint, rights};
use crate::output::print::{print, say};

/// Prints a key's fingerprint.
pub(crate) fn key(args: &Key) -> Result<(), Error> {
    let default = if args.host {
        paths::host_key
    } else {
        paths::user_key
    };
    let path = args.key.path.clone().unwrap_or_else(default);
    // a new key would be mistaken for that of the daemon
    let identity = if args.host {
        existing_key(&path)?
    } else {
        load_key(&path)?
    };
    print(&tls::fingerprint(&identity)?.to_string());
    Ok(())
}

/// Returns the key of this host's daemon. `serve` creates it at its first start, and root here.
fn existing_key(path: &Path) -> Result<Identity, Error> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root || path.exists() {
        return load_key(path);
    }
    Err(Fault::NoKey(path.to_owned()).into())
}

/// Adds a key to the list of allowed keys.
pub(crate) fn allow(args: &Allow) -> Result<(), Error> {
    let path = args
        .list
        .allowed
        .clone()
        .unwrap_or_else(paths::allowed_keys);
    let rights = rights(&args.name, &args.rights);
    allowed_keys::allow(&path, fingerprint(&args.key)?, &rights)
        .map_err(|e| Error::file(FileAction::Write, &path, &e))
}

/// Adds a key to the list of denied keys.
pub(crate) fn deny(args: &Deny) -> Result<(), Error> {
    let path = args
        .list
        .allowed
        .clone()
        .unwrap_or_else(paths::allowed_keys);
    allowed_keys::deny(&path, fingerprint(&args.key)?, &args.why)
        .map_err(|e| Error::file(FileAction::Write, &path, &e))
}

/// Adds a daemon's key to the list of known keys.
pub(crate) fn trust(args: &Trust) -> Result<(), Error> {
    let path = paths::known_hosts();
    let key = fingerprint(&args.key)?;
    let known = known_hosts::accept(&path, &args.host, key, args.replace)
        .map_err(|e| Error::file(FileAction::Write, &path, &e))?;
    let host = &args.host;
    match known {
        KeyCheck::New | KeyCheck::Matches => Ok(()),
        KeyCheck::Changed(other) if args.replace => {
            say(&format!(
                "lighthaul: {host} had the key {other}, and has {key} from now on"
            ));
            Ok(())
        }
        KeyCheck::Malformed(nth) => Err(unclear(&path, nth, host)),
        KeyCheck::Changed(other) => Err(Fault::OtherKey {
            host: host.clone(),
            known: other.to_string(),
            key: key.to_string(),
        }
        .into()),
    }
}
