//! Commands for the login shell of another host, which may be sh, bash, zsh, fish, csh or tcsh.

use std::fmt;

/// Command that runs a script in `sh`, whichever the login shell is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word(String);

impl Word {
    /// Quotes `script` for all of these shells. They agree on text between single quotes if it has no single quote,
    /// backslash, exclamation mark or end of a line.
    pub(super) fn script(script: &str) -> Self {
        debug_assert!(!script.contains(['\'', '\\', '!', '\n']), "{script}");
        Self(format!("exec sh -c '{script}'"))
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns true if `program` needs no quotes in any of these shells.
pub(super) fn is_plain(program: &str) -> bool {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"/._-+".contains(&octet);
    !program.is_empty() && !program.starts_with('-') && program.bytes().all(plain)
}
