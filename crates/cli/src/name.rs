//! Names as they are shown: any octets on one line of harmless text, and back in JSON.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::{Map, Value};

/// `name` as one line: what is not text, or would move a terminal, is written `\xHH`, and `\` is `\\`.
pub(crate) fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for part in name.utf8_chunks() {
        for letter in part.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                letter if letter.is_control() || is_invisible(letter) => {
                    for octet in letter.encode_utf8(&mut [0; 4]).bytes() {
                        write!(text, "\\x{octet:02x}").ok();
                    }
                }
                letter => text.push(letter),
            }
        }
        for octet in part.invalid() {
            write!(text, "\\x{octet:02x}").ok();
        }
    }
    text
}

/// `text` without what would move a terminal; lines stay lines.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let moves = |letter: char| letter != '\n' && (letter.is_control() || is_invisible(letter));
    if text.contains(moves) {
        text.replace(moves, "\u{fffd}").into()
    } else {
        text.into()
    }
}

/// Puts `name` into `event` under `key`: as it is if it is text, else as it is shown, and beside that
/// all of its octets in hexadecimal digits under `key` with `_hex`.
pub(crate) fn put(event: &mut Map<String, Value>, key: &str, name: &[u8]) {
    if let Ok(text) = str::from_utf8(name) {
        event.insert(key.to_owned(), text.into());
        return;
    }
    let hex = name.iter().fold(String::new(), |mut hex, octet| {
        write!(hex, "{octet:02x}").ok();
        hex
    });
    event.insert(key.to_owned(), shown(name).into());
    event.insert(format!("{key}_hex"), hex.into());
}

/// Marks that turn text around or hide in it.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_shown_as_it_is_and_the_rest_in_digits() {
        for (name, text) in [
            (&b"plain"[..], "plain"),
            ("größe ✓".as_bytes(), "größe ✓"),
            (b"a\nb\x1b[2J", r"a\x0ab\x1b[2J"),
            (b"\xff\xfe.dat", r"\xff\xfe.dat"),
            (br"back\slash", r"back\\slash"),
            ("\u{202e}txt.exe".as_bytes(), r"\xe2\x80\xaetxt.exe"),
        ] {
            assert_eq!(shown(name), text);
        }
    }

    #[test]
    fn what_a_peer_says_cannot_move_the_terminal() {
        assert_eq!(harmless("two\nlines, größer"), "two\nlines, größer");
        assert_eq!(harmless("a\x1b]0;title\x07b"), "a\u{fffd}]0;title\u{fffd}b");
    }

    proptest! {
        #[test]
        fn no_two_names_are_shown_alike_and_none_moves_the_terminal(
            one: Vec<u8>,
            other: Vec<u8>,
        ) {
            prop_assert_eq!(shown(&one) == shown(&other), one == other);
            prop_assert!(!shown(&one).chars().any(char::is_control));
        }

        #[test]
        fn json_has_every_octet(name: Vec<u8>) {
            let mut event = Map::new();
            put(&mut event, "path", &name);
            let read = match event.get("path_hex") {
                None => event["path"].as_str().unwrap().as_bytes().to_vec(),
                Some(hex) => {
                    let hex = hex.as_str().unwrap();
                    let octet = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                    (0..hex.len()).step_by(2).map(octet).collect()
                }
            };
            prop_assert_eq!(read, name);
        }
    }
}
