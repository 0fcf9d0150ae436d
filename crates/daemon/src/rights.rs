//! What the holder of a key may do, and how people write it.

use std::fmt;
use std::path::{Path, PathBuf};

use lighthaul_io::fs::ground::Ground;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::receive::Permit;

/// What somebody who is let in may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own")]
pub struct Rights {
    /// Whose they are, for the log.
    pub name: String,
    /// The folder that is the whole world to its holder.
    pub root: Option<PathBuf>,
    /// A folder there that is, in its place, if somebody else than the operator named it.
    pub within: Option<PathBuf>,
    /// Files may be fetched, but none may be left.
    pub read_only: bool,
    /// Files may be given to other users and groups.
    pub owners: bool,
    /// Set-user-ID, set-group-ID and sticky bits and `security.*` and `trusted.*` attributes may be set, and devices,
    /// FIFOs and sockets replaced or removed; together with `owners` that is as good as root.
    pub special: bool,
    /// Sessions of programs may be sent through the gateway here, to where it lets them go.
    pub gateway: bool,
    /// When they end, in seconds since 1970.
    pub expires: Option<u64>,
}

/// What makes no sense in the rights that somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRights {
    /// A quote without its partner.
    #[error("a quote is not closed")]
    Quote,
    /// A word that is no option.
    #[error(
        "\"{0}\" is no option: there are root=DIR, ro, owners, special, gateway and expires=SECONDS"
    )]
    Option(String),
}

impl Rights {
    /// Reads `NAME root=DIR ro owners special gateway expires=SECONDS`, quoted as in a shell. A word that is not understood
    /// makes the whole line worthless, since it may have meant less.
    pub fn parse(text: &str) -> Result<Self, NotRights> {
        let words = shlex::split(text).ok_or(NotRights::Quote)?;
        let mut rights = Self::default();
        for (nth, word) in words.into_iter().enumerate() {
            match word.split_once('=') {
                Some(("root", root)) if !root.is_empty() => rights.root = Some(root.into()),
                Some(("expires", time)) if time.parse::<u64>().is_ok() => {
                    rights.expires = time.parse().ok();
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

    /// Those of the user as whom the daemon runs, for who started it over ssh: all that the system lets that user do.
    pub fn of_user() -> Self {
        Self {
            owners: true,
            special: true,
            ..Self::default()
        }
    }

    /// What a statement that claims these rights grants, signed by an authority that may grant no more than its own.
    pub(crate) fn vouched(self, claimed: Self) -> Self {
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

    /// Why a session that began with `begun` may not go on with these rights; what it does besides is for who knows
    /// its request. More rights than before harm nobody.
    pub(crate) fn narrowed(&self, begun: &Self) -> Option<&'static str> {
        let changes = [
            (
                self.root != begun.root || self.within != begun.within,
                "your root there was changed",
            ),
            (
                begun.owners && !self.owners,
                "you may give files to other users there no longer",
            ),
            (
                begun.special && !self.special,
                "you may set special bits and attributes there no longer",
            ),
        ];
        changes
            .into_iter()
            .find_map(|(is_so, why)| is_so.then_some(why))
    }

    /// What files that its holder leaves may be.
    pub(crate) const fn permit(&self) -> Permit {
        Permit {
            owners: self.owners,
            special: self.special,
        }
    }

    /// Whether they still hold at `now`, in seconds since 1970.
    pub fn hold_at(&self, now: u64) -> bool {
        self.expires.is_none_or(|end| now < end)
    }

    /// These rights as far as the daemon's own `root` lets them go: a relative root is beneath it.
    #[must_use]
    pub fn beneath(mut self, root: Option<&Path>) -> Self {
        self.root = match (self.root, root) {
            (Some(own), Some(root)) => Some(root.join(own)),
            (own, root) => own.or_else(|| root.map(Path::to_owned)),
        };
        self
    }

    /// What its holder may use.
    pub fn ground(&self) -> Result<Ground, Error> {
        let failed = |path: &Path, e| Error::file(Code::Open, "cannot open the root", path, &e);
        let beneath = |path: &Path| Ground::beneath(path).map_err(|e| failed(path, e));
        match (&self.root, &self.within) {
            (None, None) => Ok(Ground::anywhere()),
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
    fn plain_lines_and_options_are_understood() {
        let plain = Rights::parse("alice").unwrap();
        assert_eq!((plain.name.as_str(), plain.root), ("alice", None));
        assert!(!plain.read_only);
        assert_eq!(Rights::parse("").unwrap(), Rights::default());
        let full = Rights::parse("'A B' root='/my data' ro expires=7").unwrap();
        assert_eq!((full.name.as_str(), full.read_only), ("A B", true));
        assert_eq!(full.root, Some("/my data".into()));
        assert!(full.hold_at(6) && !full.hold_at(7));
    }

    #[test]
    fn the_first_word_is_a_name_unless_it_narrows_the_rights() {
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
    fn what_is_not_understood_gives_no_rights_at_all() {
        for text in [
            "a rooot=/x",
            "a read-only",
            "a root=",
            "a expires=soon",
            "a 'b",
        ] {
            assert!(Rights::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_relative_root_is_beneath_that_of_the_daemon() {
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
    fn an_authority_grants_no_more_than_its_own_and_less_is_narrower() {
        let all = Rights::parse("a owners special gateway").unwrap();
        let some = Rights::parse("lab root=/l special expires=9").unwrap();
        let granted = some.clone().vouched(all.clone());
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
    fn user_of_the_daemon_keeps_the_rights_that_the_system_gives() {
        let rights = Rights::of_user();
        assert_eq!(rights.to_string(), "- owners special");
        assert_eq!((rights.root, rights.expires), (None, None));
    }

    #[test]
    fn statement_grants_what_both_it_and_its_authority_allow() {
        let rights = |bits: u32| Rights {
            read_only: bits & 1 > 0,
            owners: bits & 2 > 0,
            special: bits & 4 > 0,
            gateway: bits & 8 > 0,
            ..Rights::default()
        };
        for (authority, claimed) in (0..16).flat_map(|one| (0..16).map(move |two| (one, two))) {
            let both = authority & claimed & !1 | (authority | claimed) & 1;
            let granted = rights(authority).vouched(rights(claimed));
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
            assert_eq!(until(authority).vouched(until(claimed)), until(granted));
        }
    }

    proptest! {
        #[test]
        fn rights_survive_print_and_parse(name in "[^\0]{0,9}", root in "[^\0]{1,9}", flags: [bool; 4], expires: Option<u64>) {
            let [read_only, owners, special, gateway] = flags;
            let rights = Rights { name, root: Some(root.into()), read_only, owners, special, gateway, expires, within: None };
            let read = Rights::parse(&rights.to_string());
            // a name that is an option, or none, is the only thing that is not kept
            if !rights.name.is_empty() && rights.name != "ro" && !rights.name.contains('=') {
                prop_assert_eq!(read, Ok(rights));
            }
        }
    }
}
