//! Secrets that let in their bearers: a line each, in a file that people can edit.
//!
//! ```text
//! sha256:...  alice
//! sha256:...  bob operator expires=1900000000
//! ```
//!
//! The file has the secrets' hashes, so that who reads it gets in nowhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use lighthaul_io::durable;
use lighthaul_io::identity::Fingerprint;

use super::role::NotARole;
use crate::books::{Role, Who};

/// A file of tokens, read again when it has changed.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    read: Mutex<Read>,
}

#[derive(Debug, Default)]
struct Read {
    of: Option<(SystemTime, u64)>,
    entries: Vec<Entry>,
}

/// Whose token it is, and until when, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The token's hash.
    pub token: Fingerprint,
    /// Whose it is.
    pub who: Who,
    /// When it ends.
    pub expires: Option<u64>,
}

impl Tokens {
    /// The tokens of a file, which need not be there yet; and what makes no sense in it, by line.
    pub fn open(path: &Path) -> io::Result<(Self, Vec<String>)> {
        let tokens = Self {
            path: path.to_owned(),
            read: Mutex::default(),
        };
        let faults = match fs::read_to_string(path) {
            Ok(text) => parse(&text).1,
            Err(why) if why.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(why) => return Err(why),
        };
        Ok((tokens, faults))
    }

    /// Who bears `token` at `now`, in seconds since 1970.
    pub fn bearer(&self, token: &str, now: u64) -> Option<Who> {
        let shown = Fingerprint::of_token(token);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut read);
        // all of them are compared, so that time does not say which was near
        let found = read.entries.iter().filter(|entry| entry.token.is(shown));
        let found = found.filter(|entry| entry.expires.is_none_or(|end| now < end));
        found.map(|entry| entry.who.clone()).next_back()
    }

    /// Reads the file again if it is another than before. What cannot be read lets nobody in.
    fn refresh(&self, read: &mut Read) {
        let about = fs::metadata(&self.path);
        let of = about
            .and_then(|about| Ok((about.modified()?, about.len())))
            .ok();
        if of.is_none() || of != read.of {
            let text = fs::read_to_string(&self.path).unwrap_or_default();
            *read = Read {
                of,
                entries: parse(&text).0,
            };
        }
    }
}

/// Lists a token in the file at `path`, which is made if it is missing.
pub fn add(path: &Path, entry: &Entry) -> io::Result<()> {
    if !is_name(&entry.who.name) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            NotAnEntry::Name,
        ));
    }
    let name = shlex::try_quote(&entry.who.name).map_err(io::Error::other)?;
    let expires = entry.expires.map(|end| format!(" expires={end}"));
    let line = format!(
        "{} {name} {}{}\n",
        entry.token,
        entry.who.role,
        expires.unwrap_or_default()
    );
    durable::edit(path, |old| {
        let mut text = old.unwrap_or_default();
        if text.last().is_some_and(|last| *last != b'\n') {
            // a line that an editor left open would swallow this one
            text.push(b'\n');
        }
        text.extend(line.as_bytes());
        Ok((Some(text), ()))
    })
}

/// What lines say, and what is wrong with the others.
fn parse(text: &str) -> (Vec<Entry>, Vec<String>) {
    let (mut entries, mut faults) = (Vec::new(), Vec::new());
    for (nth, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match entry(line) {
            Ok(entry) => entries.push(entry),
            Err(why) => faults.push(format!("line {nth}: {why}")),
        }
    }
    (entries, faults)
}

/// What an issuer calls somebody has an @ in it, and nobody else is called so.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['@', '\n', '\r'])
}

/// A word that is not understood makes the whole line worthless, since it may have meant less.
fn entry(line: &str) -> Result<Entry, NotAnEntry> {
    let words = shlex::split(line).ok_or(NotAnEntry::Quote)?;
    let mut words = words.into_iter();
    let token = words.next().and_then(|word| word.parse().ok());
    let token = token.ok_or(NotAnEntry::Token)?;
    let name = words.next().ok_or(NotAnEntry::Name)?;
    if !is_name(&name) {
        return Err(NotAnEntry::Name);
    }
    let (mut role, mut expires) = (Role::User, None);
    for word in words {
        match word.strip_prefix("expires=") {
            Some(end) => expires = Some(end.parse().map_err(|_| NotAnEntry::Expires)?),
            None => role = word.parse()?,
        }
    }
    let who = Who { name, role };
    Ok(Entry {
        token,
        who,
        expires,
    })
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NotAnEntry {
    #[error("a quote is not closed")]
    Quote,
    #[error("it does not begin with a token's hash, sha256: and 64 hexadecimal digits")]
    Token,
    #[error("there is no name, or one with @ in it, which only issuers give")]
    Name,
    #[error("expires= is followed by seconds since 1970")]
    Expires,
    #[error(transparent)]
    Role(#[from] NotARole),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(token: &str, rest: &str) -> String {
        format!("{} {rest}\n", Fingerprint::of_token(token))
    }

    #[test]
    fn a_file_lets_in_those_it_lists_until_they_expire_or_it_changes() {
        let folder = std::env::temp_dir().join(format!("lighthaul-tokens-{}", std::process::id()));
        let path = folder.join("tokens");
        let (tokens, faults) = Tokens::open(&path).unwrap();
        assert_eq!((tokens.bearer("a", 0), faults.len()), (None, 0));
        let who = |name: &str, role| Who {
            name: name.to_owned(),
            role,
        };
        let list = |token: &str, who: Who, expires| {
            let token = Fingerprint::of_token(token);
            let entry = Entry {
                token,
                who,
                expires,
            };
            add(&path, &entry).unwrap();
        };
        list("a", who("alice", Role::User), None);
        list("b", who("bob b", Role::Operator), Some(7));
        assert_eq!(tokens.bearer("a", 9), Some(who("alice", Role::User)));
        assert_eq!(tokens.bearer("b", 6), Some(who("bob b", Role::Operator)));
        assert_eq!((tokens.bearer("b", 7), tokens.bearer("c", 0)), (None, None));
        fs::write(&path, line("c", "carol admin")).unwrap();
        assert_eq!(tokens.bearer("a", 9), None);
        assert_eq!(tokens.bearer("c", 9), Some(who("carol", Role::Admin)));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(tokens.bearer("c", 9), None);
    }

    #[test]
    fn unreadable_file_is_an_error() {
        // a directory is no list
        assert!(Tokens::open(Path::new("/proc/self")).is_err());
    }

    #[test]
    fn token_is_added_behind_a_line_that_an_editor_left_open() {
        let file = format!("lighthaul-open-line-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let (first, last) = (line("a", "alice user"), line("b", "bob user"));
        let token = Fingerprint::of_token("b");
        let (name, role) = ("bob".to_owned(), Role::User);
        let who = Who { name, role };
        let entry = Entry {
            token,
            who,
            expires: None,
        };
        for before in [first.as_str(), first.trim_end()] {
            fs::write(&path, before).unwrap();
            add(&path, &entry).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{first}{last}"));
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_is_not_understood_lets_nobody_in_and_is_named() {
        for (text, says) in [
            ("sha256:12 a".to_owned(), "64 hexadecimal"),
            (line("a", ""), "no name"),
            (line("a", "me@here"), "issuers"),
            (line("a", "alice root"), "no role"),
            (line("a", "alice expires=soon"), "seconds"),
            (line("a", "'alice"), "quote"),
        ] {
            let (entries, faults) = parse(&format!("# a comment\n\n{text}"));
            assert!(entries.is_empty(), "{text}");
            assert!(faults[0].starts_with("line 3: "), "{faults:?}");
            assert!(faults[0].contains(says), "{faults:?}");
        }
    }
}
