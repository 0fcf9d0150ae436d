//! `lighthaul token` and `lighthaul sign`.

#[cfg(not(feature = "scheduler"))]
use lighthaul_booking_client::role::Role;
use lighthaul_daemon::{allowed_keys, statement};
use lighthaul_grammar::keys::{Sign, Token};
use lighthaul_io::crypto::identity;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_remote::dial::load_key;
use lighthaul_remote::paths;
use lighthaul_session::error::{Error, FileAction};

use crate::keys::rights::{fingerprint, now, rights};
#[cfg(feature = "scheduler")]
use crate::keys::scheduler_token::scheduler_token;
#[cfg(not(feature = "scheduler"))]
use crate::missing_feature;
use crate::output::print::print;

/// Creates a token, prints it once, and adds its fingerprint to the list.
pub(crate) fn token(args: &Token) -> Result<(), Error> {
    let token = identity::token();
    if let Some(role) = args.role {
        return scheduler_token(args, role, &token);
    }
    let path = args.tokens.clone().unwrap_or_else(paths::tokens);
    let rights = rights(&args.name, &args.rights);
    allowed_keys::allow(&path, Fingerprint::of_token(&token), &rights)
        .map_err(|e| Error::file(FileAction::Write, &path, &e))?;
    print(&token);
    Ok(())
}

#[cfg(not(feature = "scheduler"))]
fn scheduler_token(_: &Token, _: Role, _: &str) -> Result<(), Error> {
    Err(missing_feature::error("schedulers", "scheduler"))
}

/// Signs a statement for a key, and prints it.
pub(crate) fn sign(args: &Sign) -> Result<(), Error> {
    let path = args.key.path.clone().unwrap_or_else(paths::user_key);
    let authority = load_key(&path)?;
    let rights = rights(&args.name, &args.rights);
    let expires = rights.expires.unwrap_or_else(|| now() + SIGNED_SECONDS);
    let octets = statement::sign(&authority, fingerprint(&args.subject)?, &rights, expires);
    print(&statement::to_text(&octets));
    Ok(())
}

/// Default lifetime of a statement: 30 days.
const SIGNED_SECONDS: u64 = 30 * 86_400;
