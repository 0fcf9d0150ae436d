//! Rights of a client by the current lists of keys and tokens. All checks of rights are here.

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_session::credential::Credential;
use lighthaul_session::error::{Code, Coded, Error};

use crate::client_identity::ClientIdentity;
use crate::rights::Rights;
use crate::settings::AccessPolicy;
use crate::statement::{self, NotValid};
use crate::watched_keys::WatchedKeys;

/// Lists of the clients that may call.
#[derive(Debug)]
pub(crate) enum Authorizer {
    /// Lists of keys, authorities and tokens.
    Listed(Box<KeyLists>),
    /// This key alone, with the rights of the user of this process.
    Only(Fingerprint),
}

/// List of keys and list of tokens.
#[derive(Debug)]
pub(crate) struct KeyLists {
    keys: WatchedKeys,
    tokens: WatchedKeys,
}

/// Reason why a client has no rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAllowed {
    /// The key is not listed or is denied, which a client cannot distinguish.
    #[error("your key is not allowed there")]
    Unknown,
    /// The rights of the key or of its credential have expired.
    #[error("your rights there have expired")]
    Expired,
    /// The token is not listed.
    #[error("your token is not known there")]
    UnknownToken,
    /// The statement is invalid.
    #[error("your statement is not accepted there: {0}")]
    Statement(NotValid),
    /// The key that signed the statement is not listed as an authority.
    #[error("the signer of your statement is not an authority there")]
    UnknownAuthority,
    /// A list of keys or tokens cannot be read.
    #[error(
        "the list of allowed keys cannot be read there; the daemon's operator has to repair it"
    )]
    Unreadable,
}

impl Authorizer {
    /// Creates the authorizer of a policy.
    pub(crate) fn of(policy: &AccessPolicy) -> Self {
        match policy {
            AccessPolicy::Only(key) => Self::Only(*key),
            AccessPolicy::Listed { keys, tokens } => Self::Listed(Box::new(KeyLists {
                keys: WatchedKeys::new(keys.clone()),
                tokens: WatchedKeys::new(tokens.clone()),
            })),
        }
    }

    /// Reads changed lists again, so that malformed lines are logged when they appear.
    pub(crate) fn reload(&self) {
        if let Self::Listed(lists) = self {
            // an unreadable list is reported to clients, and logged by the list itself
            lists.keys.list().ok();
            lists.tokens.list().ok();
        }
    }

    /// Returns the current rights of the holder of `key`, by the lists or by its credential. Also returns the identity
    /// whose share of the daemon the client uses.
    pub(crate) fn rights(
        &self,
        key: Fingerprint,
        credential: Option<&Credential>,
    ) -> Result<(Rights, ClientIdentity), NotAllowed> {
        let (keys, tokens) = match self {
            Self::Only(only) if *only == key => {
                return Ok((Rights::of_user(), ClientIdentity::listed(key)));
            }
            Self::Only(_) => return Err(NotAllowed::Unknown),
            Self::Listed(lists) => (&lists.keys, &lists.tokens),
        };
        let now = unix_nanos() / 1_000_000_000;
        let keys = keys.list().map_err(|_| NotAllowed::Unreadable)?;
        if keys.is_denied(key) {
            return Err(NotAllowed::Unknown);
        }
        let listed = keys.rights(key);
        let expired = listed.is_some();
        if let Some(rights) = listed.filter(|rights| rights.hold_at(now)) {
            return Ok((rights, ClientIdentity::listed(key)));
        }
        let (granted, identity) = match credential {
            None if expired => return Err(NotAllowed::Expired),
            None => return Err(NotAllowed::Unknown),
            Some(Credential::Token(token)) => {
                let print = Fingerprint::of_token(token);
                let rights = tokens
                    .list()
                    .map_err(|_| NotAllowed::Unreadable)?
                    .rights(print);
                let rights = rights.ok_or(NotAllowed::UnknownToken)?;
                // the holder of a token can create any number of keys
                (rights, ClientIdentity::listed(print))
            }
            Some(Credential::Statement(octets)) => {
                let (authority, claimed) =
                    statement::read(octets, key, now).map_err(NotAllowed::Statement)?;
                let most = keys.authority(authority);
                let most = most.ok_or(NotAllowed::UnknownAuthority)?;
                // the holder of an authority's key can create any number of statements
                let identity = ClientIdentity {
                    print: key,
                    authority: Some(authority),
                };
                (most.granted_by_statement(claimed), identity)
            }
        };
        if !granted.hold_at(now) {
            return Err(NotAllowed::Expired);
        }
        Ok((granted, identity))
    }
}

/// Refusal of a client, with the command of the operator if one helps.
#[derive(Debug, thiserror::Error)]
#[error("{why}{remedy}")]
struct Denied {
    why: NotAllowed,
    remedy: String,
}

impl Coded for Denied {
    fn code(&self) -> Code {
        Code::Permission
    }
}

impl NotAllowed {
    /// Returns the error for the client with `key`; `options` are those that `lighthaul allow` needs for it.
    pub(crate) fn to_error(self, key: Fingerprint, options: &str) -> Error {
        let remedy = match self {
            Self::Unknown => {
                format!("; the daemon's operator can add it with `lighthaul allow {options}{key}`")
            }
            Self::Expired
            | Self::UnknownToken
            | Self::Statement(_)
            | Self::UnknownAuthority
            | Self::Unreadable => String::new(),
        };
        Denied { why: self, remedy }.into()
    }
}
