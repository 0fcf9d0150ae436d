//! Credentials that this side shows to a daemon.

use std::io::ErrorKind;
use std::{env, fs};

use crate::error::Fault;
use lighthaul_daemon::statement;
use lighthaul_session::credential::Credential;
use lighthaul_session::error::{Error, FileAction};

use crate::daemon::{Daemon, Token};
use crate::paths;

/// Returns the token or statement for a daemon that does not know this user's key.
pub fn ours(far: &Daemon) -> Result<Option<Credential>, Error> {
    if let Some(Token(token)) = &far.token {
        return Ok(Some(Credential::Token(token.clone())));
    }
    if let Some(path) = &far.token_file {
        let token =
            fs::read_to_string(path).map_err(|e| Error::file(FileAction::ReadToken, path, &e))?;
        return Ok(Some(Credential::Token(token.trim().to_owned())));
    }
    // not an option, since other users can read the arguments of a process
    if let Ok(token) = env::var("LIGHTHAUL_TOKEN") {
        return Ok(Some(Credential::Token(token)));
    }
    let path = far.statement.clone().unwrap_or_else(paths::statement);
    let text = match fs::read_to_string(&path) {
        Err(error) if far.statement.is_none() && error.kind() == ErrorKind::NotFound => {
            return Ok(None);
        }
        text => text.map_err(|e| Error::file(FileAction::ReadStatement, &path, &e))?,
    };
    let octets = statement::from_text(&text).map_err(|why| Fault::Statement {
        path: path.clone(),
        why: why.to_string(),
    })?;
    Ok(Some(Credential::Statement(octets)))
}
