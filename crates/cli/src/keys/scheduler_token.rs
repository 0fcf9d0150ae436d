//! Tokens of schedulers.

use lighthaul_booking::books::Principal;
use lighthaul_booking_client::role::Role;
use lighthaul_grammar::keys::Token;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_remote::paths;
use lighthaul_scheduler::identity::tokens;
use lighthaul_scheduler::identity::tokens::Entry;
use lighthaul_session::error::{Error, FileAction};

use crate::keys::rights::now;
use crate::output::print::print;

/// Creates a token for the scheduler, prints it once, and adds its fingerprint to the list.
pub(crate) fn scheduler_token(args: &Token, role: Role, token: &str) -> Result<(), Error> {
    let path = args.tokens.clone().unwrap_or_else(paths::scheduler_tokens);
    let expires = args
        .rights
        .expires
        .map(|time| now().saturating_add(time.as_secs()));
    let entry = Entry {
        token: Fingerprint::of_token(token),
        bearer: Principal::new(args.name.clone(), role),
        expires,
    };
    tokens::add(&path, &entry).map_err(|e| Error::file(FileAction::Write, &path, &e))?;
    print(token);
    Ok(())
}
