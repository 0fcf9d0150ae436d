//! First lines of scripts.

use std::ffi::CString;

/// Returns the interpreter of a script (execve(2)).
pub(crate) fn interpreter(head: &[u8]) -> Option<CString> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|octet| *octet == b'\n').next()?;
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    CString::new(word).ok().filter(|word| !word.is_empty())
}
