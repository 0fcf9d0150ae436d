//! What a caller may do: judged in one place, from the lists as they are now, whenever it is asked.

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_session::credential::Credential;
use lighthaul_session::error::{Code, Error};

use crate::rights::Rights;
use crate::settings::AccessPolicy;
use crate::statement;
use crate::watched_keys::WatchedKeys;

/// The lists that say who may call.
#[derive(Debug)]
pub(crate) enum Authorizer {
    /// Keys with authorities, and tokens.
    Listed(Box<KeyLists>),
    /// This key alone, which may do all that the user may as whom we run.
    Only(Fingerprint),
}

/// Both lists.
#[derive(Debug)]
pub(crate) struct KeyLists {
    keys: WatchedKeys,
    tokens: WatchedKeys,
}

/// Why somebody may not call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotAllowed {
    /// Nothing is known of its key.
    Unknown,
    /// Something is, and it is not enough.
    Refused(String),
}

impl Authorizer {
    /// Returns the judge of those who are welcome.
    pub(crate) fn of(policy: &AccessPolicy) -> Self {
        match policy {
            AccessPolicy::Only(key) => Self::Only(*key),
            AccessPolicy::Listed { keys, tokens } => Self::Listed(Box::new(KeyLists {
                keys: WatchedKeys::new(keys.clone()),
                tokens: WatchedKeys::new(tokens.clone()),
            })),
        }
    }

    /// Reads lists that have changed, so that what makes no sense in them is logged when it appears.
    pub(crate) fn reload(&self) {
        if let Self::Listed(lists) = self {
            // who calls hears that a list cannot be read
            lists.keys.list().ok();
            lists.tokens.list().ok();
        }
    }

    /// What the holder of `key` may do now, because that is listed or because of what else it shows; and whose share
    /// of the daemon it uses.
    pub(crate) fn rights(
        &self,
        key: Fingerprint,
        credential: Option<&Credential>,
    ) -> Result<(Rights, Fingerprint), NotAllowed> {
        let (keys, tokens) = match self {
            Self::Only(only) if *only == key => return Ok((Rights::of_user(), key)),
            Self::Only(_) => return Err(NotAllowed::Unknown),
            Self::Listed(lists) => (&lists.keys, &lists.tokens),
        };
        let now = unix_nanos() / 1_000_000_000;
        let keys = keys.list().map_err(|_| unreadable())?;
        if keys.is_denied(key) {
            return Err(NotAllowed::Unknown);
        }
        let listed = keys.rights(key);
        let expired = listed.is_some();
        if let Some(rights) = listed.filter(|rights| rights.hold_at(now)) {
            return Ok((rights, key));
        }
        let (granted, identity) = match credential {
            None if expired => return Err(refuse(EXPIRED)),
            None => return Err(NotAllowed::Unknown),
            Some(Credential::Token(token)) => {
                let print = Fingerprint::of_token(token);
                let rights = tokens.list().map_err(|_| unreadable())?.rights(print);
                let rights = rights.ok_or_else(|| refuse("your token is not known there"))?;
                // its bearer can make any number of keys
                (rights, print)
            }
            Some(Credential::Statement(octets)) => {
                let (authority, claimed) = statement::read(octets, key, now)
                    .map_err(|why| refuse(&format!("your statement is not taken there: {why}")))?;
                let most = keys.authority(authority);
                let most =
                    most.ok_or_else(|| refuse("who signed your statement is no authority there"))?;
                (most.vouched(claimed), key)
            }
        };
        if !granted.hold_at(now) {
            return Err(refuse(EXPIRED));
        }
        Ok((granted, identity))
    }
}

impl NotAllowed {
    /// What the caller with `key` hears; `options` are those of `lighthaul allow` that it would need.
    pub(crate) fn to_error(self, key: Fingerprint, options: &str) -> Error {
        let text = match self {
            Self::Refused(text) => text,
            Self::Unknown => format!(
                "your key is not allowed there; its operator can add it with `lighthaul allow {options}{key}`"
            ),
        };
        Error::new(Code::Permission, text)
    }
}

const EXPIRED: &str = "what lets you in there has expired";

fn refuse(text: &str) -> NotAllowed {
    NotAllowed::Refused(text.to_owned())
}

fn unreadable() -> NotAllowed {
    refuse("who may call cannot be read there; its operator has to see to that")
}
