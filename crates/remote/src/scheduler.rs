//! Clients of a scheduler, which must have a trusted certificate or its known key.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::error::Fault;
use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::zone::Zone;
use lighthaul_daemon::known_hosts::KeyCheck;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::{Error, FileAction};

use crate::dial::{judge, unclear};
use crate::paths;

/// Scheduler, and the credentials for it.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// URL of the scheduler's interface.
    pub url: String,
    /// File with a token for the scheduler.
    pub token_file: Option<PathBuf>,
    /// Key that the scheduler must have, instead of a certificate.
    pub pin: Option<String>,
    /// File with the keys of known hosts, instead of the default file.
    pub known_hosts: Option<PathBuf>,
}

/// Returns a client of the scheduler.
pub fn reach(asking: &Scheduler) -> Result<Client, Error> {
    let name = host(&asking.url)?;
    if asking.pin.is_some() && !asking.url.starts_with("https://") {
        return Err(Fault::PinWithoutTls(asking.url.clone()).into());
    }
    let pin = asking.pin.clone();
    let known_hosts = asking.known_hosts.clone();
    let known_hosts = known_hosts.unwrap_or_else(paths::known_hosts);
    let known = ServerTrust {
        by_certificate: pin.is_none(),
        by_key: Box::new(move |shown| check(&known_hosts, pin.as_deref(), &name, shown)),
    };
    Client::new(&asking.url, known, token(asking)?).map_err(failed)
}

/// Returns the host and port of a URL, which name the scheduler in the list of known keys.
fn host(url: &str) -> Result<String, Error> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
    let host = host.filter(|host| !host.is_empty() && !host.contains('@'));
    let host = host.map(str::to_owned);
    Ok(host.ok_or_else(|| Fault::SchedulerUrl(url.to_owned()))?)
}

/// Checks the key that the scheduler `name` shows. A token is sent to it, so the key must be known already.
fn check(known: &Path, pin: Option<&str>, name: &str, shown: Fingerprint) -> Result<(), String> {
    match judge(known, pin, true, (name, shown)).map_err(|error| error.text())? {
        KeyCheck::Matches => Ok(()),
        KeyCheck::New => Err(format!(
            "it shows the key {shown}, which is not known here: compare it with `lighthaul key --host` there, then \
             accept it with `lighthaul trust {name} {shown}`"
        )),
        KeyCheck::Changed(expected) => Err(format!(
            "it shows the key {shown}, but {expected} is expected: another host may be answering in its place; if its key has changed, \
             accept it with `lighthaul trust --replace {name} {shown}`"
        )),
        KeyCheck::Malformed(nth) => Err(unclear(known, nth, name).text()),
    }
}

/// Returns the token for the scheduler. Tokens for daemons are not sent to it.
fn token(asking: &Scheduler) -> Result<Option<String>, Error> {
    if let Some(path) = &asking.token_file {
        let token =
            fs::read_to_string(path).map_err(|e| Error::file(FileAction::ReadToken, path, &e))?;
        return Ok(Some(token.trim().to_owned()));
    }
    // not an option, since other users can read the arguments of a process
    Ok(env::var("LIGHTHAUL_SCHEDULER_TOKEN").ok())
}

/// Returns the error for a failure, with its exit status. Its times are local, as options take them.
pub fn failed(mut failure: ClientError) -> Error {
    if let ClientError::Problem(problem) = &mut failure {
        problem.detail = Zone::LOCAL.localized(&problem.detail);
    }
    Fault::Scheduler(failure).into()
}
