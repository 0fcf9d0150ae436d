//! Changes of permission bits that the user asks for, in the format of rsync's `--chmod`.
//!
//! [`ModeChanges::parse`] converts each change to two masks, the bits that stay and the bits that
//! are set, so that [`ModeChanges::apply`] is simple arithmetic. The sender applies them to the
//! entries that it lists. Symbolic links have no changes. Only the 12 permission bits change, and
//! the type of the file stays.

use lighthaul_io::control::bounded;
use lighthaul_session::error::Error;
use serde::{Deserialize, Serialize};

use crate::error::Fault;

/// Maximum number of changes of one copy.
const CHANGES_MAX: usize = 64;
/// Permission, set-ID and sticky bits.
const BITS: u32 = 0o7777;

/// Changes of permission bits, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChanges(
    #[serde(deserialize_with = "bounded::list::<CHANGES_MAX, _, _>")] Vec<ModeChange>,
);

/// One change: bits that stay, and bits that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ModeChange {
    scope: Scope,
    keeps: u16,
    sets: u16,
    /// True to set execute bits only for directories, and for files that have one (`X`).
    conditional: bool,
}

/// Entries that a change applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Scope {
    All,
    Folders,
    Files,
}

/// Operator of a change.
#[derive(Clone, Copy, Debug)]
enum Operator {
    Add,
    Remove,
    Assign,
}

impl ModeChanges {
    /// Parses changes such as `D755,F644` or `ug=rwX,o-w`. Permissions without `u`, `g`, `o` or `a`
    /// leave out the bits of `umask`.
    pub fn parse(text: &str, umask: u32) -> Result<Self, Error> {
        let invalid = |part: &str| Fault::ModeChange(text.to_owned(), part.to_owned());
        let changes = text.split(',');
        let changes = changes.map(|part| parse(part, umask).ok_or_else(|| invalid(part)));
        let changes: Vec<ModeChange> = changes.collect::<Result<_, Fault>>()?;
        if changes.len() > CHANGES_MAX {
            return Err(Fault::TooManyModeChanges(CHANGES_MAX).into());
        }
        Ok(Self(changes))
    }

    /// Appends later changes. Fails if there are more than a copy may have, so that none is left
    /// out.
    pub fn extend(&mut self, later: Self) -> Result<(), Error> {
        if self.0.len() + later.0.len() > CHANGES_MAX {
            return Err(Fault::TooManyModeChanges(CHANGES_MAX).into());
        }
        self.0.extend(later.0);
        Ok(())
    }

    /// Returns the changed `mode` of a directory or another entry.
    pub fn apply(&self, mode: u32, is_folder: bool) -> u32 {
        let runs = mode & 0o111 != 0;
        self.0.iter().fold(mode, |mode, change| {
            let applies = match change.scope {
                Scope::All => true,
                Scope::Folders => is_folder,
                Scope::Files => !is_folder,
            };
            if !applies {
                return mode;
            }
            let sets = u32::from(change.sets);
            let sets = if change.conditional && !runs && !is_folder {
                sets & !0o111
            } else {
                sets
            };
            mode & (u32::from(change.keeps) | !BITS) | sets & BITS
        })
    }
}

/// Parses one change.
fn parse(text: &str, umask: u32) -> Option<ModeChange> {
    let mut octets = text.bytes().peekable();
    let mut scope = Scope::All;
    while let Some(octet) = octets.next_if(|octet| b"DF".contains(octet)) {
        let found = if octet == b'D' {
            Scope::Folders
        } else {
            Scope::Files
        };
        if scope != Scope::All && scope != found {
            return None;
        }
        scope = found;
    }
    let change = |keeps: u32, sets: u32, conditional| ModeChange {
        scope,
        keeps: (keeps & BITS) as u16,
        sets: (sets & BITS) as u16,
        conditional,
    };
    let rest: Vec<u8> = octets.collect();
    if rest.first()?.is_ascii_digit() {
        let digits = std::str::from_utf8(&rest).ok()?;
        let mode = u32::from_str_radix(digits, 8).ok()?;
        return (mode <= BITS).then(|| change(0, mode, false));
    }
    let at = rest.iter().position(|octet| b"+-=".contains(octet))?;
    let (classes, special) = classes(&rest[..at])?;
    let operator = match rest[at] {
        b'+' => Operator::Add,
        b'-' => Operator::Remove,
        _ => Operator::Assign,
    };
    let (mut bits, mut extra, mut conditional) = (0, 0, false);
    for octet in &rest[at + 1..] {
        match octet {
            b'r' => bits |= 4,
            b'w' => bits |= 2,
            b'x' => bits |= 1,
            b'X' => {
                bits |= 1;
                conditional = true;
            }
            b's' if special == 0 => extra |= 0o4000,
            b's' => extra |= special,
            b't' => extra |= 0o1000,
            _ => return None,
        }
    }
    let (classes, masked) = match classes {
        0 => (0o111, umask),
        classes => (classes, 0),
    };
    let bits = (classes * bits) & !masked;
    Some(match operator {
        Operator::Add => change(BITS, bits | extra, conditional),
        Operator::Remove => change(BITS & !(bits | extra), 0, conditional),
        Operator::Assign => {
            let special = if extra == 0 { 0 } else { special };
            change(BITS & !(classes * 7) & !special, bits | extra, conditional)
        }
    })
}

/// Returns the lowest bit of each class of users in `text`, and the set-ID bits of these classes.
fn classes(text: &[u8]) -> Option<(u32, u32)> {
    text.iter().try_fold((0, 0), |(bits, special), octet| {
        Some(match octet {
            b'u' => (bits | 0o100, special | 0o4000),
            b'g' => (bits | 0o010, special | 0o2000),
            b'o' => (bits | 0o001, special),
            b'a' => (bits | 0o111, special),
            _ => return None,
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn modes_change_as_in_rsync() {
        let changed = |text: &str, mode, is_folder| {
            let changes = ModeChanges::parse(text, 0o022).unwrap();
            changes.apply(mode, is_folder)
        };
        for (text, file, folder) in [
            ("D755,F600", 0o600, 0o755),
            ("go-rwx", 0o600, 0o700),
            ("a+X", 0o644, 0o755),
            ("u+X,Fgo=", 0o600, 0o755),
            ("+w", 0o644, 0o755),
            ("Dg+s,o-rx", 0o640, 0o2750),
            ("u=rwxs", 0o4744, 0o4755),
            ("+t", 0o1644, 0o1755),
            ("0", 0, 0),
        ] {
            assert_eq!(changed(text, 0o644, false), file, "{text} of a file");
            assert_eq!(changed(text, 0o755, true), folder, "{text} of a directory");
        }
    }

    #[test]
    fn invalid_changes_are_refused() {
        for text in ["", "x", "u", "DFu+x", "8", "17777", "u+q", "u+x,,", "q+x"] {
            assert!(ModeChanges::parse(text, 0).is_err(), "{text}");
        }
    }

    #[test]
    fn changes_beyond_the_limit_are_refused() {
        let many = |count: usize| ModeChanges::parse(&vec!["u+r"; count].join(","), 0);
        assert!(many(CHANGES_MAX + 1).is_err());
        let mut changes = many(CHANGES_MAX - 1).unwrap();
        changes
            .extend(ModeChanges::parse("go=", 0).unwrap())
            .unwrap();
        assert_eq!(changes.apply(0o644, false), 0o600);
        // the last change is the one that counts
        let later = ModeChanges::parse("go=r", 0).unwrap();
        let refused = changes.extend(later).unwrap_err().to_string();
        assert!(refused.contains("at most 64 changes"), "{refused}");
    }

    proptest! {
        #[test]
        fn only_permission_bits_change(text in "[DFugoa+=rwxXst0-7,-]{0,12}", mode: u32, folder: bool) {
            if let Ok(changes) = ModeChanges::parse(&text, 0o022) {
                prop_assert_eq!(changes.apply(mode, folder) & !BITS, mode & !BITS);
            }
        }
    }
}
