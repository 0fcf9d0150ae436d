//! Which daemons a user knows: a line each, a fingerprint and a name, in a file that people can edit.

use std::path::Path;
use std::{fs, io};

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::fs::durable;

/// What a file of known daemons says of one that shows its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCheck {
    /// It has shown this key before.
    Matches,
    /// It has shown another.
    Changed(Fingerprint),
    /// Nobody has called it yet.
    New,
    /// The line of this number, from 1, is about it, and its key makes no sense.
    Malformed(usize),
}

/// Looks up `name`, which shows `key`, in the file at `path`.
pub fn lookup(path: &Path, name: &str, key: Fingerprint) -> io::Result<KeyCheck> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(judge(&text, name, key)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KeyCheck::New),
        Err(error) => Err(error),
    }
}

/// Looks up `name`, which shows `key`, in the file at `path`, and lists it there if it is new. Of two
/// that meet a daemon at once, the second sees what the first has listed.
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

/// KeyLists `key` as that of `name` in the file at `path`, and returns what was known before. Another key, and a line
/// that makes no sense, stay unless they are to be replaced.
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
        let is_other =
            |line: &&str| entry(line).is_none_or(|(_, other)| !other.eq_ignore_ascii_case(name));
        let others = text.lines().filter(is_other);
        let mut kept: String = others.flat_map(|line| [line, "\n"]).collect();
        kept.push_str(&line(&kept, name, key));
        Ok((Some(kept.into_bytes()), known))
    })
}

/// The text of a file that may be missing.
fn text(octets: Option<Vec<u8>>) -> io::Result<String> {
    let text = String::from_utf8(octets.unwrap_or_default());
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn judge(text: &str, name: &str, key: Fingerprint) -> KeyCheck {
    let lines = text.lines().zip(1..);
    let about = lines.filter_map(|(line, nth)| Some((entry(line)?, nth)));
    let mut first = KeyCheck::New;
    for ((said, _), nth) in about.filter(|((_, other), _)| other.eq_ignore_ascii_case(name)) {
        match said {
            Some(said) if said == key => return KeyCheck::Matches,
            // of several, the first that makes no sense, so that nobody learns another key of its host
            None if !matches!(first, KeyCheck::Malformed(_)) => first = KeyCheck::Malformed(nth),
            Some(said) if first == KeyCheck::New => first = KeyCheck::Changed(said),
            Some(_) | None => {}
        }
    }
    first
}

/// The key, if it makes sense, and the name in a line; comments have none.
fn entry(line: &str) -> Option<(Option<Fingerprint>, &str)> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (key, name) = line.split_once(char::is_whitespace)?;
    Some((key.parse().ok(), name.trim()))
}

/// A line to be put behind `text`.
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
    fn what_was_met_is_known_and_another_key_is_told_apart() {
        let text = format!("# mine\n{} Host\nnonsense\n{} b:99", key("1"), key("2"));
        assert_eq!(judge(&text, "host", key("1")), KeyCheck::Matches);
        assert_eq!(judge(&text, "host", key("2")), KeyCheck::Changed(key("1")));
        assert_eq!(judge(&text, "b:99", key("2")), KeyCheck::Matches);
        assert_eq!(judge(&text, "b", key("2")), KeyCheck::New);
        // a line that makes no sense does not make its host a new one
        let odd = format!("sha256:12 host\n{text}");
        assert_eq!(judge(&odd, "host", key("9")), KeyCheck::Malformed(1));
        assert_eq!(judge(&odd, "host", key("1")), KeyCheck::Matches);
        let more = format!("{text}{}", line(&text, "b", key("3")));
        assert_eq!(judge(&more, "b", key("3")), KeyCheck::Matches);
        assert_eq!(judge(&more, "b:99", key("2")), KeyCheck::Matches);
    }
}
