//! Asking a scheduler, which must show a certificate that this host trusts, or the key that it is known by.

use std::{env, fs};

use lighthaul_booking::client::{Client, Failure};
use lighthaul_booking::https::Known;
use lighthaul_daemon::known_hosts::KeyCheck;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::{Code, Error};

use crate::grammar::booking::ClientArgs;
use crate::paths;
use crate::remote::dial::{judge, unclear};

/// Asks the scheduler that is meant.
pub(crate) fn reach(asking: &ClientArgs) -> Result<Client, Error> {
    let name = host(&asking.scheduler)?;
    let pin = asking.pin.clone();
    let known = Known {
        by_certificate: pin.is_none(),
        by_key: Box::new(move |shown| check(pin.as_deref(), &name, shown)),
    };
    Client::new(&asking.scheduler, known, token(asking)?).map_err(failed)
}

/// The host and port of a URL, which is what the scheduler is known by.
fn host(url: &str) -> Result<String, Error> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
    let host = host.filter(|host| !host.is_empty() && !host.contains('@'));
    let text = || format!("{url} is not the URL of a scheduler: write it as in https://HOST:4811");
    host.map(str::to_owned)
        .ok_or_else(|| Error::new(Code::Usage, text()))
}

/// Checks the key that the scheduler `name` shows. A token is sent to it, so the key must be known already.
fn check(pin: Option<&str>, name: &str, shown: Fingerprint) -> Result<(), String> {
    match judge(pin, true, name, shown).map_err(|error| error.text)? {
        KeyCheck::Matches => Ok(()),
        KeyCheck::New => Err(format!(
            "it shows the key {shown}, which is not known here: compare it with `lighthaul key --host` there, then \
             accept it with `lighthaul trust {name} {shown}`"
        )),
        KeyCheck::Changed(expected) => Err(format!(
            "it shows the key {shown}, but {expected} is expected: another host may be answering in its place; if its key has changed, \
             accept it with `lighthaul trust --replace {name} {shown}`"
        )),
        KeyCheck::Malformed(nth) => Err(unclear(&paths::known_hosts(), nth, name).text),
    }
}

/// Returns the token for the scheduler. Tokens for daemons are not sent to it.
fn token(asking: &ClientArgs) -> Result<Option<String>, Error> {
    if let Some(path) = &asking.token_file {
        let token = fs::read_to_string(path)
            .map_err(|e| Error::file(Code::Permission, "cannot read the token in", path, &e))?;
        return Ok(Some(token.trim().to_owned()));
    }
    // not a flag, since other users can see it
    Ok(env::var("LIGHTHAUL_SCHEDULER_TOKEN").ok())
}

/// Returns the error for a failure, with its exit status.
#[expect(clippy::needless_pass_by_value, reason = "map_err gives it away")]
pub(crate) fn failed(failure: Failure) -> Error {
    let code = match &failure {
        Failure::Untrusted { .. } => Code::Permission,
        Failure::Network { .. } => Code::Network,
        Failure::Protocol { .. } => Code::Protocol,
        Failure::Problem(problem) => match problem.status {
            401 | 403 => Code::Permission,
            409 => Code::Refused,
            429 | 500.. => Code::Network,
            _ => Code::Usage,
        },
    };
    Error::new(code, failure.to_string())
}
