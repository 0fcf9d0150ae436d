//! Rights of the holder of a key, and their text format.
//!
//! [`Rights`] stand in the lists of keys and tokens, and in signed statements. [`Rights::beneath`]
//! adds the root of the daemon, and [`Rights::access`] opens the directory that results. A
//! statement never widens the rights of its authority. Words that restrict count in any place. A
//! word that permits counts as the name if it comes first, so a line without a name has no more
//! rights than intended. The text does not contain `within`.

use std::fmt;
use std::path::{Path, PathBuf};

use lighthaul_base::civil;
use lighthaul_files::permit::Permit;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_session::error::{Error, FileAction};

use crate::error::Narrowed;

/// Rights of an admitted client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent words")]
pub struct Rights {
    /// Name of the client in the log.
    pub name: String,
    /// Directory that the client sees as `/`.
    pub root: Option<PathBuf>,
    /// Directory beneath `root` that the client sees as `/` instead, if a statement names one.
    pub within: Option<PathBuf>,
    /// True if files can be read and not written.
    pub read_only: bool,
    /// True if files can be given to other users and groups.
    pub owners: bool,
    /// True if set-user-ID, set-group-ID and sticky bits and `security.*` and `trusted.*` attributes can be set, and
    /// devices, FIFOs and sockets replaced or removed. Together with `owners`, this equals the rights of root.
    pub special: bool,
    /// True if sessions of programs can be sent through the gateway, to targets that the gateway allows.
    pub gateway: bool,
    /// Time of expiry, in seconds since 1970.
    pub expires: Option<u64>,
}

/// Fault of a text of rights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRights {
    /// A quote is not closed.
    #[error("a quote is not closed")]
    Quote,
    /// A word is not an option.
    #[error(
        "\"{0}\" is not an option; the options are root=DIR, ro, owners, special, gateway and expires=TIME, \
         as in expires=2031-05-01T06:00:00Z"
    )]
    Option(String),
}

impl Rights {
    /// Parses `NAME root=DIR ro owners special gateway expires=TIME`, quoted as in a shell. The time has a date and a
    /// UTC offset, or is a number of seconds since 1970. An unknown word makes the whole line invalid, since it may
    /// restrict the rights.
    pub fn parse(text: &str) -> Result<Self, NotRights> {
        let words = shlex::split(text).ok_or(NotRights::Quote)?;
        let mut rights = Self::default();
        for (nth, word) in words.into_iter().enumerate() {
            match word.split_once('=') {
                Some(("root", root)) if !root.is_empty() => rights.root = Some(root.into()),
                Some(("expires", time)) if civil::unix_seconds(time).is_some() => {
                    rights.expires = civil::unix_seconds(time);
                }
                None if word == "ro" => rights.read_only = true,
                None if word == "owners" && nth > 0 => rights.owners = true,
                None if word == "special" && nth > 0 => rights.special = true,
                None if word == "gateway" && nth > 0 => rights.gateway = true,
                None if nth == 0 => rights.name = word,
                _ => return Err(NotRights::Option(word)),
            }
        }
        Ok(rights)
    }

    /// Returns the rights of the user of this process, for a daemon that this user started over ssh.
    pub fn of_user() -> Self {
        Self {
            owners: true,
            special: true,
            ..Self::default()
        }
    }

    /// Returns the rights that a statement of this authority grants if it claims the rights `claimed`.
    pub(crate) fn granted_by_statement(self, claimed: Self) -> Self {
        Self {
            root: self.root,
            within: claimed.root,
            name: claimed.name,
            read_only: claimed.read_only || self.read_only,
            owners: claimed.owners && self.owners,
            special: claimed.special && self.special,
            gateway: claimed.gateway && self.gateway,
            expires: claimed.expires.into_iter().chain(self.expires).min(),
        }
    }

    /// Returns the reason why a session that began with the rights `begun` must end under the present rights. The
    /// caller checks the request itself. Additional rights end no session.
    pub(crate) fn narrowed(&self, begun: &Self) -> Option<Narrowed> {
        let changes = [
            (
                self.root != begun.root || self.within != begun.within,
                Narrowed::Root,
            ),
            (begun.owners && !self.owners, Narrowed::Owners),
            (begun.special && !self.special, Narrowed::Special),
        ];
        changes
            .into_iter()
            .find_map(|(is_so, why)| is_so.then_some(why))
    }

    /// Returns the metadata that received files may have.
    pub(crate) const fn permit(&self) -> Permit {
        Permit {
            owners: self.owners,
            special: self.special,
        }
    }

    /// Returns true if the rights hold at `now`, in seconds since 1970.
    pub fn hold_at(&self, now: u64) -> bool {
        self.expires.is_none_or(|end| now < end)
    }

    /// Returns the rights with their root below the daemon's own `root`. A relative root becomes a directory below it.
    #[must_use]
    pub fn beneath(mut self, root: Option<&Path>) -> Self {
        self.root = match (self.root, root) {
            (Some(own), Some(root)) => Some(root.join(own)),
            (own, root) => own.or_else(|| root.map(Path::to_owned)),
        };
        self
    }

    /// Opens the directory that the client sees as `/`.
    pub fn access(&self) -> Result<FileAccess, Error> {
        let failed = |path: &Path, e| Error::file(FileAction::OpenRoot, path, &e);
        let beneath = |path: &Path| FileAccess::beneath(path).map_err(|e| failed(path, e));
        match (&self.root, &self.within) {
            (None, None) => Ok(FileAccess::anywhere()),
            (Some(path), None) | (None, Some(path)) => beneath(path),
            (Some(root), Some(path)) => beneath(root)?.within(path).map_err(|e| failed(path, e)),
        }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |word: &str| shlex::try_quote(word).map(std::borrow::Cow::into_owned);
        let name = if self.name.is_empty() {
            "-"
        } else {
            &self.name
        };
        write!(f, "{}", quoted(name).map_err(|_| fmt::Error)?)?;
        if let Some(root) = &self.root {
            let root = root.display().to_string();
            write!(f, " root={}", quoted(&root).map_err(|_| fmt::Error)?)?;
        }
        if self.read_only {
            f.write_str(" ro")?;
        }
        if self.owners {
            f.write_str(" owners")?;
        }
        if self.special {
            f.write_str(" special")?;
        }
        if self.gateway {
            f.write_str(" gateway")?;
        }
        if let Some(end) = self.expires {
            write!(f, " expires={end}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_options_are_parsed() {
        let plain = Rights::parse("alice").unwrap();
        assert_eq!((plain.name.as_str(), plain.root), ("alice", None));
        assert!(!plain.read_only);
        assert_eq!(Rights::parse("").unwrap(), Rights::default());
        let full = Rights::parse("'A B' root='/my data' ro expires=7").unwrap();
        assert_eq!((full.name.as_str(), full.read_only), ("A B", true));
        assert_eq!(full.root, Some("/my data".into()));
        assert!(full.hold_at(6) && !full.hold_at(7));
        let dated = Rights::parse("a expires=2031-05-01T08:00:00+02:00").unwrap();
        assert_eq!(dated.expires, Some(1_935_381_600));
    }

    #[test]
    fn owners_and_special_bits_of_received_files_need_a_right() {
        for (options, owners, special) in [
            ("", false, false),
            (" owners", true, false),
            (" special", false, true),
            (" owners special", true, true),
        ] {
            let permit = Rights::parse(&format!("name{options}")).unwrap().permit();
            let found = (permit.owners, permit.special);
            assert_eq!(found, (owners, special), "{options}");
        }
    }

    #[test]
    fn first_word_is_a_name_unless_it_restricts_the_rights() {
        for word in ["owners", "special", "gateway"] {
            let rights = Rights::parse(word).unwrap();
            assert_eq!(rights.name, word);
            assert!(!rights.owners && !rights.special && !rights.gateway);
            let rights = Rights::parse(&format!("name {word}")).unwrap();
            assert!(rights.owners || rights.special || rights.gateway);
        }
        assert!(Rights::parse("ro").unwrap().read_only);
    }

    #[test]
    fn unknown_words_make_the_line_invalid() {
        for text in [
            "a rooot=/x",
            "a read-only",
            "a root=",
            "a expires=soon",
            "a expires=2031-05-01T06:00:00",
            "a 'b",
        ] {
            assert!(Rights::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn relative_root_is_beneath_the_root_of_the_daemon() {
        let at = |own: &str| {
            Rights::parse(&format!("a root={own}"))
                .unwrap()
                .beneath(Some(Path::new("/srv")))
                .root
        };
        assert_eq!(at("data"), Some("/srv/data".into()));
        assert_eq!(at("/data"), Some("/data".into()));
        assert_eq!(
            Rights::default().beneath(Some(Path::new("/srv"))).root,
            Some("/srv".into())
        );
    }

    #[test]
    fn authority_grants_at_most_its_own_rights_and_fewer_rights_end_a_session() {
        let all = Rights::parse("a owners special gateway").unwrap();
        let some = Rights::parse("lab root=/l special expires=9").unwrap();
        let granted = some.clone().granted_by_statement(all.clone());
        assert_eq!(granted.to_string(), "a root=/l special expires=9");
        assert_eq!(all.narrowed(&all), None);
        assert!(
            some.narrowed(&all).is_some() && all.narrowed(&some).is_some(),
            "another root"
        );
        let less = Rights {
            special: false,
            ..all.clone()
        };
        assert!(less.narrowed(&all).is_some() && all.narrowed(&less).is_none());
    }

    #[test]
    fn user_of_the_daemon_has_all_rights_of_the_system() {
        let rights = Rights::of_user();
        assert_eq!(rights.to_string(), "- owners special");
        assert_eq!((rights.root, rights.expires), (None, None));
    }

    #[test]
    fn statement_grants_rights_that_both_statement_and_authority_have() {
        let rights = |bits: u32| Rights {
            read_only: bits & 1 > 0,
            owners: bits & 2 > 0,
            special: bits & 4 > 0,
            gateway: bits & 8 > 0,
            ..Rights::default()
        };
        for (authority, claimed) in (0..16).flat_map(|one| (0..16).map(move |two| (one, two))) {
            let both = authority & claimed & !1 | (authority | claimed) & 1;
            let granted = rights(authority).granted_by_statement(rights(claimed));
            assert_eq!(granted, rights(both), "{authority:b} {claimed:b}");
        }
        let until = |expires| Rights {
            expires,
            ..Rights::default()
        };
        for (authority, claimed, granted) in [
            (None, None, None),
            (Some(5), None, Some(5)),
            (None, Some(5), Some(5)),
            (Some(4), Some(5), Some(4)),
            (Some(5), Some(4), Some(4)),
        ] {
            assert_eq!(
                until(authority).granted_by_statement(until(claimed)),
                until(granted)
            );
        }
    }

    proptest! {
        #[test]
        fn printed_rights_parse_to_the_same_value(name in "[^\0]{0,9}", root in "[^\0]{1,9}", flags: [bool; 4], expires: Option<u64>) {
            let [read_only, owners, special, gateway] = flags;
            let rights = Rights { name, root: Some(root.into()), read_only, owners, special, gateway, expires, within: None };
            let read = Rights::parse(&rights.to_string());
            // only a name that is an option, or empty, changes
            if !rights.name.is_empty() && rights.name != "ro" && !rights.name.contains('=') {
                prop_assert_eq!(read, Ok(rights));
            }
        }
    }
}
