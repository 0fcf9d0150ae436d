//! Rights of a client by the current lists of keys and tokens. All checks of rights are here.
//!
//! An `Authorizer` reads the lists again when their files change, so that a removed key loses its
//! rights. A denied key has none, even with a credential. A listed key has its own rights;
//! otherwise a token or a signed statement gives them. Statements never give more than their
//! authority has. Each answer also names the identity whose share of the daemon is used. If a list
//! cannot be read, clients that need it are refused with a `NotAllowed`.

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
    /// A single key, with the rights of the user of this process.
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

    /// Reads changed lists again, so that malformed lines are logged soon.
    pub(crate) fn reload(&self) {
        if let Self::Listed(lists) = self {
            // an unreadable list is reported to clients, and logged by the list itself
            lists.keys.list().ok();
            lists.tokens.list().ok();
        }
    }

    /// Returns the current rights of the holder of `key`, from the lists or from its credential. Also returns the
    /// identity whose share of the daemon the client uses.
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
    /// Returns the error for the client with `key`; `options` are the options of `lighthaul allow` for such a client.
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::{env, fs, process};

    use lighthaul_io::crypto::identity::Identity;
    use lighthaul_testkit::logged;

    use super::*;

    /// Lists in a directory, which is removed with them.
    struct Lists {
        folder: PathBuf,
        authorizer: Authorizer,
    }

    impl Lists {
        fn new(name: &str, keys: &str, tokens: &str) -> Self {
            let folder = format!("lighthaul-authorizer-{name}-{}", process::id());
            let folder = env::temp_dir().join(folder);
            fs::create_dir_all(&folder).unwrap();
            let policy = AccessPolicy::Listed {
                keys: folder.join("keys"),
                tokens: folder.join("tokens"),
            };
            fs::write(folder.join("keys"), keys).unwrap();
            fs::write(folder.join("tokens"), tokens).unwrap();
            let authorizer = Authorizer::of(&policy);
            Self { folder, authorizer }
        }

        /// Returns the name in the rights of `key`, or the reason why it has none.
        fn name(
            &self,
            key: Fingerprint,
            credential: Option<&Credential>,
        ) -> Result<String, NotAllowed> {
            let rights = self.authorizer.rights(key, credential);
            rights.map(|(rights, _)| rights.name)
        }
    }

    impl Drop for Lists {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.folder).ok();
        }
    }

    fn key(digit: &str) -> Fingerprint {
        format!("sha256:{}", digit.repeat(64)).parse().unwrap()
    }

    fn token(text: &str) -> Credential {
        Credential::Token(text.into())
    }

    /// Returns a time so many seconds from now.
    fn in_seconds(seconds: i64) -> u64 {
        (unix_nanos() / 1_000_000_000).saturating_add_signed(seconds)
    }

    #[test]
    fn single_key_has_all_rights_of_the_user_and_other_keys_have_none() {
        let only = Authorizer::of(&AccessPolicy::Only(key("1")));
        let all = (Rights::of_user(), ClientIdentity::listed(key("1")));
        assert_eq!(only.rights(key("1"), None), Ok(all));
        for credential in [None, Some(token("secret"))] {
            let other = only.rights(key("2"), credential.as_ref());
            assert_eq!(other, Err(NotAllowed::Unknown));
        }
    }

    #[test]
    fn listed_key_has_its_rights_until_they_expire() {
        let (soon, past) = (in_seconds(1000), in_seconds(-1000));
        let keys = format!(
            "{} lasting ro\n{} valid expires={soon}\n{} former expires={past}\n{} left\ndeny {}\n",
            key("1"),
            key("2"),
            key("3"),
            key("4"),
            key("4")
        );
        let lists = Lists::new("keys", &keys, "");
        let lasting = Rights::parse("lasting ro").unwrap();
        let expected = (lasting, ClientIdentity::listed(key("1")));
        assert_eq!(lists.authorizer.rights(key("1"), None), Ok(expected));
        assert_eq!(lists.name(key("2"), None), Ok("valid".into()));
        assert_eq!(lists.name(key("3"), None), Err(NotAllowed::Expired));
        assert_eq!(lists.name(key("4"), None), Err(NotAllowed::Unknown));
        assert_eq!(lists.name(key("5"), None), Err(NotAllowed::Unknown));
    }

    #[test]
    fn rights_and_share_of_a_token_do_not_depend_on_the_key() {
        let print = Fingerprint::of_token;
        let past = in_seconds(-1000);
        let keys = format!(
            "{} listed\n{} former expires={past}\ndeny {}\n",
            key("1"),
            key("2"),
            key("3")
        );
        let tokens = format!(
            "{} bearer ro\n{} old expires={past}\n",
            print("good"),
            print("old")
        );
        let lists = Lists::new("tokens", &keys, &tokens);
        let expected = (
            Rights::parse("bearer ro").unwrap(),
            ClientIdentity::listed(print("good")),
        );
        for holder in ["2", "5"] {
            let rights = lists.authorizer.rights(key(holder), Some(&token("good")));
            assert_eq!(rights.as_ref(), Ok(&expected), "{holder}");
        }
        for (holder, secret, expected) in [
            ("1", "other", Ok("listed".into())),
            ("3", "good", Err(NotAllowed::Unknown)),
            ("5", "old", Err(NotAllowed::Expired)),
            ("5", "other", Err(NotAllowed::UnknownToken)),
        ] {
            let name = lists.name(key(holder), Some(&token(secret)));
            assert_eq!(name, expected, "{holder} {secret}");
        }
    }

    #[test]
    fn statement_grants_rights_of_a_listed_authority_and_uses_the_authoritys_share() {
        let (lab, former, stranger) = (
            Identity::generate(),
            Identity::generate(),
            Identity::generate(),
        );
        let print = |identity: &Identity| Fingerprint::of_public(&identity.public());
        let (soon, past) = (in_seconds(1000), in_seconds(-1000));
        let keys = format!(
            "ca {} lab root=/lab ro\nca {} former expires={past}\n{} listed\n",
            print(&lab),
            print(&former),
            print(&stranger)
        );
        let lists = Lists::new("statements", &keys, "");
        let claimed = Rights::parse("alice root=data").unwrap();
        let signed = |by: &Identity, expires| {
            let octets = statement::sign(by, key("1"), &claimed, expires);
            Credential::Statement(octets)
        };
        let (rights, identity) = lists
            .authorizer
            .rights(key("1"), Some(&signed(&lab, soon)))
            .unwrap();
        let expected = format!("alice root=/lab ro expires={soon}");
        assert_eq!(rights.to_string(), expected);
        assert_eq!(rights.within, Some("data".into()));
        assert_eq!(identity.vouched(), (key("1"), Some(print(&lab))));
        for (holder, by, expires, expected) in [
            ("1", &former, soon, NotAllowed::Expired),
            ("1", &stranger, soon, NotAllowed::UnknownAuthority),
            ("1", &lab, past, NotAllowed::Statement(NotValid::Expired)),
            ("2", &lab, soon, NotAllowed::Statement(NotValid::Key)),
        ] {
            let name = lists.name(key(holder), Some(&signed(by, expires)));
            assert_eq!(name, Err(expected));
        }
    }

    #[test]
    fn unreadable_list_admits_no_client_that_depends_on_it() {
        let lists = Lists::new("unreadable", &format!("{} listed\n", key("1")), "");
        fs::remove_file(lists.folder.join("tokens")).unwrap();
        let missing = lists.name(key("2"), Some(&token("secret")));
        assert_eq!(missing, Err(NotAllowed::UnknownToken));
        // a directory is not a list
        fs::create_dir(lists.folder.join("tokens")).unwrap();
        let bearer = lists.name(key("2"), Some(&token("secret")));
        assert_eq!(bearer, Err(NotAllowed::Unreadable));
        assert_eq!(lists.name(key("1"), None), Ok("listed".into()));
        fs::remove_file(lists.folder.join("keys")).unwrap();
        fs::create_dir(lists.folder.join("keys")).unwrap();
        assert_eq!(lists.name(key("1"), None), Err(NotAllowed::Unreadable));
    }

    #[test]
    fn malformed_lines_are_logged_when_the_lists_are_read_again() {
        let bad = format!("{} alice rot=/x\n", key("1"));
        let lists = Lists::new("reload", &bad, &bad);
        let log = logged("line 1: ", || lists.authorizer.reload()).concat();
        for list in ["keys", "tokens"] {
            assert!(log.contains(&format!("{list}, line 1: ")), "{log}");
        }
    }

    #[test]
    fn refusal_of_an_unknown_key_names_the_command_that_adds_the_key() {
        let error = NotAllowed::Unknown.to_error(key("1"), "--gateway ");
        let command = format!("`lighthaul allow --gateway {}`", key("1"));
        assert_eq!(error.code(), Code::Permission);
        assert!(error.to_string().contains(&command), "{error}");
        let error = NotAllowed::Expired.to_error(key("1"), "");
        assert_eq!(error.code(), Code::Permission);
        assert!(!error.to_string().contains("lighthaul allow"), "{error}");
    }
}
