//! First lines of scripts.

use std::ffi::CString;

/// Returns the interpreter of a script (execve(2)). Only spaces and tabs surround it, as for the kernel.
pub(crate) fn interpreter(head: &[u8]) -> Option<CString> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|octet| *octet == b'\n').next()?;
    let mut words = line.split(|octet| matches!(octet, b' ' | b'\t'));
    let word = words.find(|word| !word.is_empty())?;
    CString::new(word).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreter_is_the_first_word() {
        for (head, expected) in [
            ("#!/bin/sh", Some("/bin/sh")),
            ("#! \t/bin/sh -e\nexit", Some("/bin/sh")),
            ("#!/bin/a\u{c}b\r\n", Some("/bin/a\u{c}b\r")),
            ("#!\n/bin/sh", None),
            ("#! \t\n", None),
            ("/bin/sh", None),
            ("", None),
        ] {
            let found = interpreter(head.as_bytes());
            let found = found.as_deref().map(|word| word.to_str().unwrap());
            assert_eq!(found, expected, "{head:?}");
        }
    }
}
