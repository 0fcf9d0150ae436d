//! List of known daemons: a text file with a fingerprint and a name on each line.
//!
//! [`lookup`] compares a key with the list, and [`lookup_or_add`] trusts the key of a daemon on
//! first use. Only [`accept`] replaces a key. Each returns a [`KeyCheck`]; the caller decides what
//! a changed key means. Names match without regard to case, and `#` begins a comment. A malformed
//! line about a daemon prevents the addition of another key. Edits are atomic, so concurrent
//! programs lose no line.

use std::path::Path;
use std::{fs, io};

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::durable;

/// Result of the comparison of a daemon's key with the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCheck {
    /// The key is the listed one.
    Matches,
    /// Another key is listed.
    Changed(Fingerprint),
    /// No key is listed.
    New,
    /// The line with the given number, from 1, lists the daemon with a malformed key.
    Malformed(usize),
}

/// Compares the key of the daemon `name` with the list at `path`.
pub fn lookup(path: &Path, name: &str, key: Fingerprint) -> io::Result<KeyCheck> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(judge(&text, name, key)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KeyCheck::New),
        Err(error) => Err(error),
    }
}

/// Returns the names of all daemons in the list at `path`, with their keys. Malformed lines are skipped.
pub fn listed(path: &Path) -> io::Result<Vec<(String, Fingerprint)>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let daemons = text.lines().filter_map(|line| {
        let (key, name) = line.trim().split_once(char::is_whitespace)?;
        let name = name.trim();
        let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
        is_name.then_some((name.to_owned(), key.parse().ok()?))
    });
    Ok(daemons.collect())
}

/// Compares the key of the daemon `name` with the list at `path`, and adds the key if none is listed. Concurrent calls
/// add one key, and compare the others with it.
pub fn lookup_or_add(path: &Path, name: &str, key: Fingerprint) -> io::Result<KeyCheck> {
    let known = lookup(path, name, key)?;
    if known != KeyCheck::New {
        return Ok(known);
    }
    durable::edit(path, |old| {
        let text = text(old)?;
        let known = judge(&text, name, key);
        let new = (known == KeyCheck::New).then(|| text.clone() + &line(&text, name, key));
        Ok((new.map(String::into_bytes), known))
    })
}

/// Lists `key` for the daemon `name` in the list at `path`, and returns the state before. Another or a malformed key
/// stays unless `replace` is true.
pub fn accept(path: &Path, name: &str, key: Fingerprint, replace: bool) -> io::Result<KeyCheck> {
    durable::edit(path, |old| {
        let text = text(old)?;
        let known = judge(&text, name, key);
        let stays = match known {
            KeyCheck::Matches => true,
            KeyCheck::Changed(_) | KeyCheck::Malformed(_) => !replace,
            KeyCheck::New => false,
        };
        if stays {
            return Ok((None, known));
        }
        let is_other = |line: &&str| Listed::of(line, name).is_none();
        let others = text.lines().filter(is_other);
        let mut kept: String = others.flat_map(|line| [line, "\n"]).collect();
        kept.push_str(&line(&kept, name, key));
        Ok((Some(kept.into_bytes()), known))
    })
}

/// Decodes the text of a file that may be missing.
fn text(octets: Option<Vec<u8>>) -> io::Result<String> {
    let text = String::from_utf8(octets.unwrap_or_default());
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn judge(text: &str, name: &str, key: Fingerprint) -> KeyCheck {
    let lines = text.lines().zip(1..);
    let about = lines.filter_map(|(line, nth)| Some((Listed::of(line, name)?, nth)));
    let mut first = KeyCheck::New;
    for (said, nth) in about {
        match said {
            Listed::Key(said) if said == key => return KeyCheck::Matches,
            // a malformed line counts, so that a new key is not learned for its host
            Listed::Malformed if !matches!(first, KeyCheck::Malformed(_)) => {
                first = KeyCheck::Malformed(nth);
            }
            Listed::Key(said) if first == KeyCheck::New => first = KeyCheck::Changed(said),
            Listed::Key(_) | Listed::Malformed => {}
        }
    }
    first
}

/// Content of a line about a daemon.
enum Listed {
    Key(Fingerprint),
    /// The line has the name, but no valid key.
    Malformed,
}

impl Listed {
    /// Returns `None` for a comment, and for a line about another daemon.
    fn of(line: &str, name: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_comment = line.trim_start().starts_with('#');
        if is_comment || !words.iter().any(|word| word.eq_ignore_ascii_case(name)) {
            return None;
        }
        let key = match words[..] {
            [key, _] => key.parse().ok(),
            _ => None,
        };
        Some(key.map_or(Self::Malformed, Self::Key))
    }
}

/// Returns the line to append to `text`.
fn line(text: &str, name: &str, key: Fingerprint) -> String {
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{end}{key} {name}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: &str) -> Fingerprint {
        format!("sha256:{}", digit.repeat(64)).parse().unwrap()
    }

    #[test]
    fn names_are_listed_with_their_keys() {
        let folder = std::env::temp_dir().join(format!("known-hosts-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("known");
        assert_eq!(listed(&path).unwrap(), []);
        let text = format!(
            "# mine\n{} Host\nnonsense\n  {}  b:99 \n{} two names\nsha256:12 bad\n",
            key("1"),
            key("2"),
            key("3")
        );
        fs::write(&path, text).unwrap();
        let hosts = [("Host".to_owned(), key("1")), ("b:99".to_owned(), key("2"))];
        assert_eq!(listed(&path).unwrap(), hosts);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn listed_key_matches_and_another_key_is_a_change() {
        let text = format!("# mine\n{} Host\nnonsense\n{} b:99", key("1"), key("2"));
        assert_eq!(judge(&text, "host", key("1")), KeyCheck::Matches);
        assert_eq!(judge(&text, "host", key("2")), KeyCheck::Changed(key("1")));
        assert_eq!(judge(&text, "b:99", key("2")), KeyCheck::Matches);
        assert_eq!(judge(&text, "b", key("2")), KeyCheck::New);
        // a malformed line does not make its host an unknown one
        let odd = format!("sha256:12 host\n{text}");
        assert_eq!(judge(&odd, "host", key("9")), KeyCheck::Malformed(1));
        assert_eq!(judge(&odd, "host", key("1")), KeyCheck::Matches);
        for line in [
            "host",
            "host sha256:12",
            &format!("Host {}", key("9")),
            &format!("{} host b", key("9")),
        ] {
            let odd = format!("#\n{line}\n");
            assert_eq!(
                judge(&odd, "host", key("9")),
                KeyCheck::Malformed(2),
                "{line}"
            );
            assert_eq!(judge(&odd, "other", key("9")), KeyCheck::New, "{line}");
        }
        let more = format!("{text}{}", line(&text, "b", key("3")));
        assert_eq!(judge(&more, "b", key("3")), KeyCheck::Matches);
        assert_eq!(judge(&more, "b:99", key("2")), KeyCheck::Matches);
    }
}
