//! What lets somebody in: rights, tokens, and statements of an authority.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use lighthaul_booking::books::{Role, Who};
use lighthaul_booking::identity::tokens::{self, Entry};
use lighthaul_daemon::rights::Rights;
use lighthaul_daemon::{allowed, statement};
use lighthaul_io::crypto::identity::{self, Fingerprint};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_transfer::credential::Credential;
use lighthaul_transfer::error::{Code, Error};

use crate::args::Far;
use crate::dial::load_key;
use crate::key_args::{Granted, Sign, Token};
use crate::places;
use crate::print::print;

/// How long what is signed holds unless somebody says otherwise: 30 days.
const SIGNED_SECONDS: u64 = 30 * 86_400;

/// Makes a token, prints it this once, and lists its fingerprint.
pub(crate) fn token(args: &Token) -> Result<(), Error> {
    let token = identity::token();
    if let Some(role) = args.role {
        return scheduler_token(args, role, &token);
    }
    let path = args.tokens.clone().unwrap_or_else(places::tokens);
    let rights = rights(&args.name, &args.rights);
    allowed::allow(&path, Fingerprint::of_token(&token), &rights)
        .map_err(|e| Error::file(Code::Io, "cannot write", &path, &e))?;
    print(&token);
    Ok(())
}

/// Lists a token for the scheduler, and prints it this once.
fn scheduler_token(args: &Token, role: Role, token: &str) -> Result<(), Error> {
    let path = args.tokens.clone().unwrap_or_else(places::scheduler_tokens);
    let expires = args
        .rights
        .expires
        .map(|seconds| now().saturating_add(seconds));
    let entry = Entry {
        token: Fingerprint::of_token(token),
        who: Who::new(args.name.clone(), role),
        expires,
    };
    tokens::add(&path, &entry)
        .map_err(|e| Error::file(Code::Io, "cannot list the token in", &path, &e))?;
    print(token);
    Ok(())
}

/// Signs for the holder of a key, and prints the statement.
pub(crate) fn sign(args: &Sign) -> Result<(), Error> {
    let path = args.key.path.clone().unwrap_or_else(places::user_key);
    let authority = load_key(&path)?;
    let rights = rights(&args.name, &args.rights);
    let expires = rights.expires.unwrap_or_else(|| now() + SIGNED_SECONDS);
    let octets = statement::sign(&authority, fingerprint(&args.subject)?, &rights, expires);
    print(&statement::to_text(&octets));
    Ok(())
}

/// What was granted to `name`, from now on.
pub(crate) fn rights(name: &str, granted: &Granted) -> Rights {
    Rights {
        name: name.to_owned(),
        root: granted.root.as_ref().map(PathBuf::from),
        read_only: granted.read_only,
        owners: granted.owners,
        special: granted.special,
        gateway: granted.gateway,
        expires: granted.expires.map(|seconds| now().saturating_add(seconds)),
        ..Rights::default()
    }
}

/// The fingerprint that somebody wrote.
pub(crate) fn fingerprint(text: &str) -> Result<Fingerprint, Error> {
    text.parse()
        .map_err(|e| Error::new(Code::Usage, format!("{e}")))
}

/// What we can show to a daemon that does not know our key.
pub(crate) fn ours(far: &Far) -> Result<Option<Credential>, Error> {
    if let Some(path) = &far.token_file {
        let token = fs::read_to_string(path)
            .map_err(|e| Error::file(Code::Permission, "cannot read the token in", path, &e))?;
        return Ok(Some(Credential::Token(token.trim().to_owned())));
    }
    // not a flag, since everybody can see those of others
    if let Ok(token) = env::var("LIGHTHAUL_TOKEN") {
        return Ok(Some(Credential::Token(token)));
    }
    let path = far.statement.clone().unwrap_or_else(places::statement);
    let text = match fs::read_to_string(&path) {
        Err(error) if far.statement.is_none() && error.kind() == ErrorKind::NotFound => {
            return Ok(None);
        }
        text => {
            text.map_err(|e| Error::file(Code::Permission, "cannot read the statement", &path, &e))?
        }
    };
    let octets = statement::from_text(&text).map_err(|why| {
        let text = format!("{} is of no use: {why}", path.display());
        Error::new(Code::Permission, text)
    })?;
    Ok(Some(Credential::Statement(octets)))
}

fn now() -> u64 {
    unix_nanos() / 1_000_000_000
}
