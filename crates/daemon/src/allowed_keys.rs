//! List of the keys that may call a daemon, with their rights: a text file with one entry a line.
//!
//! ```text
//! sha256:...  alice root=/data/alice ro
//! ca sha256:...  lab root=/data expires=2031-05-01T06:00:00Z
//! deny sha256:...
//! ```
//!
//! A list of tokens has the same format, with fingerprints of tokens instead of keys.

use std::path::Path;
use std::{fs, io};

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::durable;

use crate::rights::{NotRights, Rights};

/// Keys and their rights, as listed in a file.
#[derive(Clone, Debug, Default)]
pub struct AllowedKeys {
    entries: Vec<Entry>,
    /// Keys in malformed lines. They are denied, even if other lines allow them.
    barred: Vec<Fingerprint>,
    /// Faults of the file, each with its line number.
    pub faults: Vec<String>,
}

#[derive(Clone, Debug)]
struct Entry {
    kind: LineKind,
    key: Fingerprint,
    /// Rights, or the reason why the line grants none.
    rights: Result<Rights, NotRights>,
}

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    /// The key may call.
    Key,
    /// The key may sign statements for other keys.
    Authority,
    /// The key is denied, even if other lines allow it.
    Denied,
}

impl AllowedKeys {
    /// Reads the list at `path`; a missing file allows no key.
    pub fn load(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(octets) => Ok(Self::parse(&octets)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Parses each line by itself. A line that is not UTF-8 is a fault, and does not affect other lines.
    pub fn parse(octets: &[u8]) -> Self {
        let mut allowed = Self::default();
        for (nth, line) in (1..).zip(octets.split(|octet| *octet == b'\n')) {
            match understood(line) {
                Ok(entry) => allowed.entries.extend(entry),
                Err(why) => {
                    allowed.faults.push(format!("line {nth}: {why}"));
                    let text = String::from_utf8_lossy(line);
                    allowed.barred.extend(Fingerprint::all_in(&text));
                }
            }
        }
        allowed
    }

    /// Returns the rights of `key`, if it is listed. Of several lines, the first counts.
    pub fn rights(&self, key: Fingerprint) -> Option<Rights> {
        self.listed(LineKind::Key, key)
    }

    /// Returns the rights that `key` may grant by statements, if it is listed as an authority.
    pub fn authority(&self, key: Fingerprint) -> Option<Rights> {
        self.listed(LineKind::Authority, key)
    }

    /// Returns true if `key` is denied.
    pub fn is_denied(&self, key: Fingerprint) -> bool {
        let denied = self.entries.iter();
        let denied = denied.filter(|entry| entry.kind == LineKind::Denied);
        let mut denied = denied.map(|entry| &entry.key).chain(&self.barred);
        denied.any(|denied| denied.is(key))
    }

    fn listed(&self, kind: LineKind, key: Fingerprint) -> Option<Rights> {
        if self.is_denied(key) {
            return None;
        }
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| entry.kind == kind && entry.key.is(key))?;
        entry.rights.clone().ok()
    }
}

/// Lists `key` with `rights` in the file at `path`, and removes earlier lines about the key.
pub fn allow(path: &Path, key: Fingerprint, rights: &Rights) -> io::Result<()> {
    let line = format!("{key} {rights}");
    if !matches!(entry(&line), Ok(Some(Entry { rights: Ok(read), .. })) if read.root == rights.root)
    {
        let text = format!("\"{line}\" is not a valid line");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    put(path, key, &line)
}

/// Lists `key` as denied in the file at `path`, and removes earlier lines about the key.
pub fn deny(path: &Path, key: Fingerprint, why: &str) -> io::Result<()> {
    let why = why.replace(char::is_control, " ");
    put(path, key, format!("deny {key} {why}").trim_end())
}

/// Replaces the lines of the file at `path` that allow or deny `key` by `line`.
fn put(path: &Path, key: Fingerprint, line: &str) -> io::Result<()> {
    let is_other = |line: &&[u8]| match str::from_utf8(line).map(entry) {
        Ok(Ok(Some(entry))) => entry.kind == LineKind::Authority || entry.key != key,
        Ok(Ok(None)) => true,
        // a malformed line denies the keys in it
        Ok(Err(_)) | Err(_) => {
            let text = String::from_utf8_lossy(line);
            let mut named = Fingerprint::all_in(&text).peekable();
            named.peek().is_none() || named.any(|named| named != key)
        }
    };
    durable::edit(path, |old| {
        let old = old.unwrap_or_default();
        let lines = old.strip_suffix(b"\n").unwrap_or(&old);
        let lines = lines.split(|octet| *octet == b'\n');
        let lines = lines.filter(|_| !old.is_empty()).filter(is_other);
        let lines = lines.chain([line.as_bytes()]);
        Ok((
            Some(
                lines
                    .flat_map(|line| [line, b"\n"])
                    .flatten()
                    .copied()
                    .collect(),
            ),
            (),
        ))
    })
}

/// Returns the entry of a valid line, none for a comment, or the fault of the line.
fn understood(line: &[u8]) -> Result<Option<Entry>, String> {
    if line.trim_ascii_start().starts_with(b"#") {
        return Ok(None);
    }
    let line = str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let entry = entry(line)?;
    match entry.as_ref().map(|entry| entry.rights.as_ref()) {
        Some(Err(why)) => Err(why.to_string()),
        Some(Ok(_)) | None => Ok(entry),
    }
}

/// Parses a line; a comment has no entry.
fn entry(line: &str) -> Result<Option<Entry>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (first, rest) = split(line);
    let (kind, (key, rest)) = match first {
        "ca" => (LineKind::Authority, split(rest)),
        "deny" => (LineKind::Denied, split(rest)),
        _ => (LineKind::Key, (first, rest)),
    };
    let key = key
        .parse()
        .map_err(|e| format!("\"{key}\" is not a key: {e}"))?;
    // text after a denied key is a remark
    let rights = match kind {
        LineKind::Denied => Ok(Rights::default()),
        LineKind::Key | LineKind::Authority => Rights::parse(rest),
    };
    Ok(Some(Entry { kind, key, rights }))
}

/// Returns the first word of `text`, and the text after it.
fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use proptest::prelude::*;

    fn key(digit: &str) -> Fingerprint {
        format!("sha256:{}", digit.repeat(64)).parse().unwrap()
    }

    #[test]
    fn listed_keys_have_their_rights_and_other_keys_have_none() {
        let text = format!(
            "# who\n{}\n{} bob root=/b ro\n\nca {} lab root=/l\n",
            key("1"),
            key("2"),
            key("3")
        );
        let allowed = AllowedKeys::parse(text.as_bytes());
        assert!(allowed.faults.is_empty());
        assert_eq!(allowed.rights(key("1")), Some(Rights::default()));
        let bob = allowed.rights(key("2")).unwrap();
        assert_eq!((bob.root, bob.read_only), (Some("/b".into()), true));
        // an authority grants rights to others, not to itself
        assert_eq!(allowed.rights(key("3")), None);
        assert_eq!(allowed.authority(key("3")).unwrap().root, Some("/l".into()));
        assert_eq!(allowed.authority(key("2")), None);
    }

    #[test]
    fn missing_file_allows_no_key_and_unreadable_file_is_an_error() {
        let missing = AllowedKeys::load(Path::new("/proc/self/no-such-file")).unwrap();
        assert!(missing.entries.is_empty() && missing.faults.is_empty());
        // a directory is not a list
        assert!(AllowedKeys::load(Path::new("/proc/self")).is_err());
    }

    #[test]
    fn malformed_line_denies_its_key_even_if_a_later_line_allows_it() {
        let text = format!("{} eve rot=/x\nmd5:1 x\n{} eve\n", key("4"), key("4"));
        let allowed = AllowedKeys::parse(text.as_bytes());
        assert_eq!(allowed.faults.len(), 2, "{:?}", allowed.faults);
        assert!(allowed.faults[0].contains("line 1") && allowed.faults[0].contains("rot=/x"));
        assert_eq!(allowed.rights(key("4")), None);
    }

    #[test]
    fn malformed_line_denies_every_key_on_the_line() {
        let text = format!(
            "{0} me\nDeny {0}\nca {1} lab rot=/x\n# caf\u{e9} {2}\n{2} you\n{3} Ren\u{e9}\n",
            key("a"),
            key("b"),
            key("c"),
            key("d")
        );
        // encoded in ISO 8859-1
        let octets: Vec<u8> = text.chars().map(|letter| letter as u8).collect();
        let allowed = AllowedKeys::parse(&octets);
        assert!(allowed.is_denied(key("a")) && allowed.rights(key("a")).is_none());
        assert!(allowed.is_denied(key("b")) && allowed.authority(key("b")).is_none());
        assert!(allowed.rights(key("c")).is_some() && allowed.is_denied(key("d")));
        let faults: Vec<_> = allowed.faults.iter().map(|fault| &fault[..7]).collect();
        assert_eq!(faults, ["line 2:", "line 3:", "line 6:"]);
    }

    #[test]
    fn allowing_a_key_replaces_its_malformed_line_and_keeps_other_lines() {
        let file = format!("lighthaul-barred-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let both = format!("Deny {} {}", key("a"), key("b"));
        let other = b"# \xe9\n";
        let text = [other, format!("Deny {}\n{both}\n", key("a")).as_bytes()].concat();
        fs::write(&path, text).unwrap();
        allow(&path, key("a"), &Rights::default()).unwrap();
        let written = fs::read(&path).unwrap();
        let expected = [other, format!("{both}\n{} -\n", key("a")).as_bytes()].concat();
        assert_eq!(written, expected, "{}", String::from_utf8_lossy(&written));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn denied_key_has_no_rights() {
        let text = format!(
            "{} a\ndeny {} left us\ndeny {}\n",
            key("5"),
            key("5"),
            key("6")
        );
        let allowed = AllowedKeys::parse(text.as_bytes());
        assert_eq!((allowed.rights(key("5")), allowed.faults.len()), (None, 0));
        assert!(allowed.is_denied(key("6")) && !allowed.is_denied(key("7")));
    }

    #[test]
    fn later_line_overrides_an_earlier_allow_or_deny() {
        let folder = std::env::temp_dir().join(format!("lighthaul-deny-{}", std::process::id()));
        let path = folder.join("keys");
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, format!("# us\nca {} lab\n", key("1"))).unwrap();
        let load = || AllowedKeys::load(&path).unwrap();
        for digit in ["1", "2"] {
            allow(&path, key(digit), &Rights::default()).unwrap();
            deny(&path, key(digit), "left\nus").unwrap();
            deny(&path, key(digit), "").unwrap();
            assert!(load().is_denied(key(digit)) && load().rights(key(digit)).is_none());
        }
        assert_eq!(load().authority(key("1")), None);
        allow(&path, key("1"), &Rights::default()).unwrap();
        assert!(load().rights(key("1")).is_some() && load().authority(key("1")).is_some());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            (text.lines().count(), load().faults.len()),
            (4, 0),
            "{text}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn keys_allowed_concurrently_are_all_listed_and_the_mode_is_kept() {
        let folder = std::env::temp_dir().join(format!("lighthaul-allowed-{}", std::process::id()));
        let path = folder.join("keys");
        let digits = ["1", "2", "3", "4", "5", "6", "7", "8"];
        std::thread::scope(|scope| {
            for digit in digits {
                let path = &path;
                scope.spawn(move || allow(path, key(digit), &Rights::default()).unwrap());
            }
        });
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        allow(&path, key("1"), &Rights::parse("one ro").unwrap()).unwrap();
        let allowed = AllowedKeys::load(&path).unwrap();
        assert!(
            digits
                .iter()
                .all(|digit| allowed.rights(key(digit)).is_some())
        );
        assert!(allowed.rights(key("1")).unwrap().read_only);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o644
        );
        let odd = Rights {
            name: "a=b".into(),
            ..Rights::default()
        };
        assert!(allow(&path, key("9"), &odd).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "((ca|deny|sha256:[0-9a-f]{64}|root=|'|ro|\\PC{0,5})[ \n]){0,9}") {
            let (allowed, lines) = (AllowedKeys::parse(text.as_bytes()), text.lines().count());
            prop_assert!(allowed.entries.len() <= lines && allowed.faults.len() <= lines);
        }
    }
}
