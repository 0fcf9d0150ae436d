//! Names of files in output: octets are escaped to one line of text; JSON also has them in hexadecimal.

use std::fmt::Write;

pub(crate) use lighthaul_base::escape::escape_name as shown;
use serde_json::{Map, Value};

/// Puts `name` into `event` under `key`: as text, or escaped if it is not valid text. All its octets are then also
/// under `key` with `_hex`, in hexadecimal digits.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_shown_unchanged_and_invalid_octets_in_hexadecimal() {
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

    proptest! {
        #[test]
        fn json_name_keeps_every_octet(name: Vec<u8>) {
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
