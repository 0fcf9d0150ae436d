//! File of secret tokens, one on each line, which administrators can edit.
//!
//! ```text
//! sha256:...  alice
//! sha256:...  bob operator expires=2031-05-01T06:00:00Z
//! ```
//!
//! The file has hashes of the tokens, so that it reveals no token. A faulty line is logged when it
//! appears, and the token that it names is refused even if other lines are correct. The checks of
//! shown tokens are in `identity::checks`.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use lighthaul_base::civil;
use lighthaul_booking::books::Principal;
use lighthaul_booking_client::role::{Role, UnknownRole};
use lighthaul_fs::watched_file::WatchedFile;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::durable;
use tracing::warn;

/// File of tokens, which is read again after each change.
#[derive(Debug)]
pub struct Tokens {
    file: WatchedFile<List>,
}

/// Content of the file.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) entries: Vec<Entry>,
    /// Tokens named by faulty lines, which are refused regardless of other lines.
    pub(super) denied: BTreeSet<Fingerprint>,
    /// Faults with their line numbers.
    faults: Vec<String>,
}

/// Line of the file: a token, its bearer and the end of its validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Hash of the token.
    pub token: Fingerprint,
    /// Bearer.
    pub bearer: Principal,
    /// End of validity in seconds since 1970.
    pub expires: Option<u64>,
}

impl Tokens {
    /// Opens a file, which may not exist yet. Faulty lines are logged.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let tokens = Self {
            file: WatchedFile::new(path.to_owned()),
        };
        tokens.list()?;
        Ok(tokens)
    }

    /// Reads the file if it has changed. New faults are logged.
    pub(super) fn list(&self) -> io::Result<Arc<List>> {
        let parse = |octets: Option<Vec<u8>>, before: Option<&List>| {
            let list = List::parse(&octets.unwrap_or_default());
            let known = before.map_or(&[][..], |before| &before.faults);
            let new = list.faults.iter().filter(|fault| !known.contains(fault));
            new.take(FAULTS_MAX)
                .for_each(|fault| self.warn(&format!(", {fault}")));
            Ok(list)
        };
        let report = |why: &io::Error| self.warn(&format!(": {why}"));
        self.file.parsed_or_reported(parse, report)
    }

    fn warn(&self, why: &str) {
        warn!(
            "token file {} admits no client{why}",
            self.file.path().display()
        );
    }
}

impl List {
    /// Reads the file line by line. A line that is not UTF-8 is a fault of that line only.
    fn parse(octets: &[u8]) -> Self {
        let mut list = Self::default();
        for (nth, line) in (1..).zip(octets.split(|octet| *octet == b'\n')) {
            let text = String::from_utf8_lossy(line);
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let is_text = std::str::from_utf8(line).is_ok();
            let entry = if is_text {
                entry(text)
            } else {
                Err(EntryError::Text)
            };
            match entry {
                Ok(entry) => list.entries.push(entry),
                Err(why) => {
                    list.faults.push(format!("line {nth}: {why}"));
                    list.denied.extend(Fingerprint::all_in(text));
                }
            }
        }
        list
    }
}

/// Appends a token to the file at `path`, and creates it if needed.
pub fn add(path: &Path, entry: &Entry) -> io::Result<()> {
    if !is_name(&entry.bearer.name) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            EntryError::Name,
        ));
    }
    let name = shlex::try_quote(&entry.bearer.name).map_err(io::Error::other)?;
    let expires = entry.expires.map(|end| format!(" expires={end}"));
    let line = format!(
        "{} {name} {}{}\n",
        entry.token,
        entry.bearer.role,
        expires.unwrap_or_default()
    );
    durable::edit(path, |old| {
        let mut text = old.unwrap_or_default();
        if text.last().is_some_and(|last| *last != b'\n') {
            // the previous line may lack its newline
            text.push(b'\n');
        }
        text.extend(line.as_bytes());
        Ok((Some(text), ()))
    })
}

/// Names of bearers have no @, which is reserved for names from issuers.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['@', '\n', '\r'])
}

/// Reads one line. An unknown word makes the whole line faulty, because it may have restricted the
/// token.
fn entry(line: &str) -> Result<Entry, EntryError> {
    let words = shlex::split(line).ok_or(EntryError::Quote)?;
    let mut words = words.into_iter();
    let token = words.next().and_then(|word| word.parse().ok());
    let token = token.ok_or(EntryError::Token)?;
    let name = words.next().ok_or(EntryError::Name)?;
    if !is_name(&name) {
        return Err(EntryError::Name);
    }
    let (mut role, mut expires) = (Role::User, None);
    for word in words {
        match word.strip_prefix("expires=") {
            Some(end) => expires = Some(civil::unix_seconds(end).ok_or(EntryError::Expires)?),
            None => role = word.parse()?,
        }
    }
    let principal = Principal::new(name, role);
    Ok(Entry {
        token,
        bearer: principal,
        expires,
    })
}

/// Maximum number of faults that are logged at once.
const FAULTS_MAX: usize = 20;

/// Fault in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum EntryError {
    #[error("the line is not UTF-8")]
    Text,
    #[error("a quote is not closed")]
    Quote,
    #[error("the line does not begin with the hash of a token: sha256: and 64 hexadecimal digits")]
    Token,
    #[error("the name is missing, or has an @, which is reserved for issuers")]
    Name,
    #[error("expires= needs a time, as in 2031-05-01T06:00:00Z, or seconds since 1970")]
    Expires,
    #[error(transparent)]
    Role(#[from] UnknownRole),
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use lighthaul_testkit::logged;

    use super::*;
    use crate::identity::checks::bearer;

    fn line(token: &str, rest: &str) -> String {
        format!("{} {rest}\n", Fingerprint::of_token(token))
    }

    fn principal(name: &str, role: Role) -> Principal {
        Principal::new(name, role)
    }

    /// Creates a directory for one test.
    fn folder(name: &str) -> PathBuf {
        let name = format!("lighthaul-tokens-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn listed_token_is_valid_until_it_expires_or_is_removed() {
        let folder = std::env::temp_dir().join(format!("lighthaul-tokens-{}", std::process::id()));
        let path = folder.join("tokens");
        let tokens = Tokens::open(&path).unwrap();
        assert_eq!(bearer(&tokens, "a", 0), None);
        let list = |token: &str, principal: Principal, expires| {
            let token = Fingerprint::of_token(token);
            let entry = Entry {
                token,
                bearer: principal,
                expires,
            };
            add(&path, &entry).unwrap();
        };
        list("a", principal("alice", Role::User), None);
        list("b", principal("bob b", Role::Operator), Some(7));
        assert_eq!(
            bearer(&tokens, "a", 9),
            Some(principal("alice", Role::User))
        );
        assert_eq!(
            bearer(&tokens, "b", 6),
            Some(principal("bob b", Role::Operator))
        );
        assert_eq!(
            (bearer(&tokens, "b", 7), bearer(&tokens, "c", 0)),
            (None, None)
        );
        fs::write(&path, line("b", "bob expires=1970-01-01T00:00:07Z")).unwrap();
        let bob = Some(principal("bob", Role::User));
        assert_eq!(
            (bearer(&tokens, "b", 6), bearer(&tokens, "b", 7)),
            (bob, None)
        );
        fs::write(&path, line("c", "carol admin")).unwrap();
        assert_eq!(bearer(&tokens, "a", 9), None);
        assert_eq!(
            bearer(&tokens, "c", 9),
            Some(principal("carol", Role::Admin))
        );
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(bearer(&tokens, "c", 9), None);
    }

    #[test]
    fn unreadable_file_is_an_error() {
        // a directory is not a file of tokens
        assert!(Tokens::open(Path::new("/proc/self")).is_err());
    }

    #[test]
    fn token_is_appended_after_a_line_without_newline() {
        let file = format!("lighthaul-open-line-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let (first, last) = (line("a", "alice user"), line("b", "bob user"));
        let token = Fingerprint::of_token("b");
        let (name, role) = ("bob".to_owned(), Role::User);
        let principal = Principal::new(name, role);
        let entry = Entry {
            token,
            bearer: principal,
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
    fn malformed_line_is_reported_with_its_reason() {
        for (text, says) in [
            ("sha256:12 a".to_owned(), "64 hexadecimal"),
            (line("a", ""), "name is missing"),
            (line("a", "me@here"), "issuers"),
            (line("a", "alice root"), "unknown role"),
            (line("a", "alice expires=soon"), "seconds"),
            (line("a", "'alice"), "quote"),
        ] {
            let list = List::parse(format!("# a comment\n\n{text}").as_bytes());
            assert!(list.entries.is_empty(), "{text}");
            assert!(list.faults[0].starts_with("line 3: "), "{list:?}");
            assert!(list.faults[0].contains(says), "{list:?}");
        }
    }

    #[test]
    fn faulty_line_is_logged_once() {
        let folder = folder("log");
        let path = folder.join("tokens");
        let bad = line("a", "alice root");
        let log = logged("admits no client, ", || {
            fs::write(&path, &bad).unwrap();
            let tokens = Tokens::open(&path).unwrap();
            fs::write(&path, format!("{bad}{bad}")).unwrap();
            assert_eq!(bearer(&tokens, "a", 0), None);
        });
        let faults = log
            .iter()
            .filter_map(|line| line.split_once("admits no client, "));
        let lines: Vec<&str> = faults.map(|(_, fault)| &fault[..7]).collect();
        assert_eq!(lines, ["line 1:", "line 2:"], "{log:?}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn token_of_a_faulty_line_is_refused() {
        let folder = folder("bad");
        let path = folder.join("tokens");
        let hash = Fingerprint::of_token("a");
        for bad in [
            line("a", "alice operator ro"),
            line("a", "'alice"),
            format!("alice {hash}\n"),
            format!("deny={hash}\n"),
            format!("{} alice\n", hash.to_string().replace("sha256:", "SHA256-")),
            format!("\u{feff}{hash} alice\n"),
        ] {
            for text in [
                format!("{bad}{}", line("a", "alice")),
                format!("{}{bad}", line("a", "alice")),
            ] {
                fs::write(&path, format!("{text}{}", line("b", "bob"))).unwrap();
                let tokens = Tokens::open(&path).unwrap();
                assert_eq!(bearer(&tokens, "a", 0), None, "{text}");
                assert_eq!(bearer(&tokens, "b", 0), Some(principal("bob", Role::User)));
            }
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn line_that_is_not_utf_8_does_not_affect_other_lines() {
        let folder = folder("octets");
        let path = folder.join("tokens");
        let mut octets = b"# caf\xe9\n".to_vec();
        octets.extend(line("a", "alice").bytes());
        octets.extend(line("b", "b").trim_end().bytes());
        octets.extend(b"\xff\n");
        fs::write(&path, &octets).unwrap();
        let tokens = Tokens::open(&path).unwrap();
        assert_eq!(
            bearer(&tokens, "a", 0),
            Some(principal("alice", Role::User))
        );
        assert_eq!(bearer(&tokens, "b", 0), None);
        assert_eq!(
            List::parse(&octets).faults,
            ["line 3: the line is not UTF-8"]
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn edit_with_equal_length_and_time_is_noticed() {
        let folder = folder("tick");
        let path = folder.join("tokens");
        let tokens = Tokens::open(&path).unwrap();
        let then = std::time::SystemTime::UNIX_EPOCH;
        for (listed, other) in [("a", "b"), ("b", "a"), ("a", "b")] {
            fs::write(&path, line(listed, "x")).unwrap();
            let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            file.set_modified(then).unwrap();
            assert!(bearer(&tokens, listed, 0).is_some() && bearer(&tokens, other, 0).is_none());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
