//! Untrusted text as one printable line of bounded length.
//!
//! File names and texts from a peer pass through this module before a log, terminal, JSON event or metric shows them.
//! Control characters, line breaks, and characters that reorder or hide text are written as `\xHH` per octet.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::Write;

/// Maximum length of a text from a peer, in octets.
pub const TEXT_MAX: usize = 2 << 10;
/// Maximum length of a line in a log or on a terminal, in octets.
pub const LINE_MAX: usize = 16 << 10;

/// Returns `text` as one line of at most `max` octets. A truncated line ends in `…`.
pub fn escape(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max && !text.contains(is_hidden) {
        return text.into();
    }
    let mut line = Line::new(max);
    text.chars().take_while(|letter| line.put(*letter)).count();
    line.end().into()
}

/// Returns `name` as one line, like [`escape`], with `\xHH` for octets that are not UTF-8 and `\\` for `\`. Two
/// different names never give the same line, unless it was truncated.
pub fn escape_name(name: &[u8]) -> String {
    let mut line = Line::new(NAME_MAX);
    for part in name.utf8_chunks() {
        let fits = part.valid().chars().all(|letter| match letter {
            '\\' => line.push("\\\\"),
            letter => line.put(letter),
        });
        if !fits
            || !part
                .invalid()
                .iter()
                .all(|octet| line.put_octets(&[*octet]))
        {
            break;
        }
    }
    line.end()
}

/// Replaces each hidden character of `json`, one line of JSON, by `\uXXXX`. The value stays the same.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_hidden) {
        return json.into();
    }
    let mut line = String::with_capacity(json.len());
    for letter in json.chars() {
        if is_hidden(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(line, "\\u{unit:04x}").ok();
            }
        } else {
            line.push(letter);
        }
    }
    line.into()
}

/// True for a character that controls a terminal, breaks a line, reorders text or is invisible.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Output line under construction.
struct Line {
    text: String,
    max: usize,
    is_cut: bool,
}

impl Line {
    const fn new(max: usize) -> Self {
        Self {
            text: String::new(),
            max,
            is_cut: false,
        }
    }

    /// Appends a character, escaped if it is invisible. Returns false once the line is full.
    fn put(&mut self, letter: char) -> bool {
        let mut octets = [0; 4];
        let text = letter.encode_utf8(&mut octets);
        if is_hidden(letter) {
            let len = text.len();
            self.put_octets(&octets[..len])
        } else {
            self.push(text)
        }
    }

    fn put_octets(&mut self, octets: &[u8]) -> bool {
        let mut digits = String::with_capacity(4 * octets.len());
        for octet in octets {
            write!(digits, "\\x{octet:02x}").ok();
        }
        self.push(&digits)
    }

    fn push(&mut self, text: &str) -> bool {
        self.is_cut |= self.text.len() + text.len() > self.max;
        if !self.is_cut {
            self.text.push_str(text);
        }
        !self.is_cut
    }

    fn end(mut self) -> String {
        if self.is_cut {
            let most = self.max.saturating_sub(ELLIPSIS.len_utf8());
            let end = (0..=most).rev().find(|at| self.text.is_char_boundary(*at));
            self.text.truncate(end.unwrap_or(0));
            self.text.push(ELLIPSIS);
        }
        self.text
    }
}

const ELLIPSIS: char = '…';
/// Maximum length of an escaped name, in octets. Linux paths have up to 4 KiB, and an octet may take four characters.
const NAME_MAX: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn printable_text_is_unchanged() {
        for text in ["", "plain", "größe ✓ — 12 %", r"a\b"] {
            assert_eq!(escape(text, TEXT_MAX), text);
        }
    }

    #[test]
    fn control_and_bidi_characters_are_escaped() {
        assert_eq!(
            escape("a\nWARN forged\r\x1b[2J\u{9b}2J\u{202e}b\u{2028}", TEXT_MAX),
            r"a\x0aWARN forged\x0d\x1b[2J\xc2\x9b2J\xe2\x80\xaeb\xe2\x80\xa8"
        );
        assert_eq!(escape_name(b"\xff\n\\x"), r"\xff\x0a\\x");
    }

    #[test]
    fn escaped_json_keeps_its_value() {
        assert_eq!(
            escape_json("{\"a\":\"ö\u{202e}\u{e0041}\"}"),
            r#"{"a":"ö\u202e\udb40\udc41"}"#
        );
    }

    #[test]
    fn long_text_is_truncated() {
        let text = "ä".repeat(1 << 20);
        let line = escape(&text, TEXT_MAX);
        assert!(line.len() <= TEXT_MAX && line.ends_with(ELLIPSIS));
        assert!(escape_name(text.as_bytes()).len() <= NAME_MAX);
    }

    #[test]
    fn text_of_the_maximum_length_is_complete() {
        assert_eq!(escape("\n\n\n", 12), r"\x0a\x0a\x0a");
        assert_eq!(escape("\n\n\n", 11), r"\x0a\x0a…");
        assert_eq!((TEXT_MAX, LINE_MAX), (2048, 16_384));
        for max in [TEXT_MAX, LINE_MAX] {
            assert_eq!(escape(&"a".repeat(max), max).len(), max);
        }
    }

    proptest! {
        #[test]
        fn escaped_line_is_printable_bounded_and_idempotent(text: String, max in 3_usize..99) {
            let line = escape(&text, max);
            prop_assert!(!line.contains(is_hidden) && line.len() <= max);
            prop_assert_eq!(escape(&line, max), &*line);
        }

        #[test]
        fn different_names_escape_differently(one: Vec<u8>, other: Vec<u8>) {
            prop_assert_eq!(escape_name(&one) == escape_name(&other), one == other);
            prop_assert!(!escape_name(&one).contains(is_hidden));
        }
    }
}
