//! Line of a list of hashes, in the format of coreutils, or as an event of Lighthaul.
//!
//! ```text
//! 900150983cd24fb0d6963f7d28e17f72  path                  a leading \ marks an escaped path
//! {"path": "path", "size": 3, "digest": "md5:9001..."}    path_hex for a path that is not UTF-8
//! ```
//!
//! [`Sum::parse`] reads a line of either form, and [`line()`] writes the first. Digits alone do not
//! name their function. [`Sum`] then asks for all functions with that number of digits, and one
//! must agree.

use lighthaul_base::from_hex;
use serde_json::Value;

use crate::hash;
use crate::sums::file_sums::{CRC128, FileSums, WantedSums};

/// Line of a list about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Path of the file below the directory.
    pub path: Vec<u8>,
    /// Size of the file in bytes, if the list has it.
    pub size: Option<u64>,
    /// Hashes to compute: all hashes with the right number of digits.
    pub wanted: WantedSums,
    /// Expected value of one of the hashes, in lower-case digits.
    pub digits: String,
}

impl Sum {
    /// Parses a line without its newline. Returns `None` for a malformed line. `kind` is the hash
    /// function of a line of coreutils, if the caller knows it.
    pub fn parse(line: &[u8], kind: Option<hash::HashKind>) -> Option<Self> {
        if line.first() == Some(&b'{') {
            return Self::event(&serde_json::from_slice(line).ok()?);
        }
        let (escaped, line) = match line.strip_prefix(b"\\") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let end = line.iter().position(|octet| *octet == b' ')?;
        let digits = str::from_utf8(&line[..end]).ok()?;
        let [b' ', b' ' | b'*', path @ ..] = &line[end..] else {
            return None;
        };
        let path = if escaped {
            unescape(path)?
        } else {
            path.to_vec()
        };
        let kinds = hash::HashKind::ALL.into_iter();
        let hashes = kinds
            .filter(|fits| fits.digits() == digits.len() && kind.is_none_or(|kind| kind == *fits))
            .collect();
        let wanted = WantedSums {
            hashes,
            crc128: false,
        };
        Self::new(path, None, wanted, digits)
    }

    /// Reads an event that has a path and a digest.
    fn event(event: &Value) -> Option<Self> {
        let path = match event.get("path_hex") {
            Some(hex) => from_hex(hex.as_str()?)?,
            None => event.get("path")?.as_str()?.as_bytes().to_vec(),
        };
        let (name, digits) = event.get("digest")?.as_str()?.split_once(':')?;
        let mut kinds = hash::HashKind::ALL.into_iter();
        let wanted = WantedSums {
            hashes: kinds.find(|kind| kind.name() == name).into_iter().collect(),
            crc128: name == CRC128,
        };
        let size = match event.get("size") {
            None | Some(Value::Null) => None,
            Some(size) => Some(size.as_u64()?),
        };
        Self::new(path, size, wanted, digits)
    }

    fn new(path: Vec<u8>, size: Option<u64>, wanted: WantedSums, digits: &str) -> Option<Self> {
        let known = wanted.crc128 || !wanted.hashes.is_empty();
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let fits = wanted
            .hashes
            .iter()
            .all(|kind| kind.digits() == digits.len());
        let fits = fits && (!wanted.crc128 || digits.len() == CRC128_DIGITS);
        (known && is_hex && fits && !path.is_empty()).then(|| Self {
            path,
            size,
            wanted,
            digits: digits.to_ascii_lowercase(),
        })
    }

    /// Compares `taken` with the line. The error describes the difference.
    pub fn compare(&self, taken: &FileSums) -> Result<(), String> {
        if let Some(size) = self.size.filter(|size| *size != taken.size) {
            return Err(format!("it has {} bytes, not {size}", taken.size));
        }
        if taken.sums.iter().any(|(_, digits)| *digits == self.digits) {
            return Ok(());
        }
        let found: Vec<String> = taken
            .sums
            .iter()
            .map(|(name, digits)| format!("{name} is {digits}"))
            .collect();
        Err(format!("its {}, not {}", found.join(" and "), self.digits))
    }
}

/// Returns the line with the hash `digits` of the file at `path`, in the format of coreutils.
pub fn line(digits: &str, path: &[u8]) -> Vec<u8> {
    let special = |octet: &u8| matches!(octet, b'\\' | b'\n' | b'\r');
    let mut line = Vec::with_capacity(digits.len() + path.len() + 3);
    if path.iter().any(special) {
        line.push(b'\\');
    }
    line.extend_from_slice(digits.as_bytes());
    line.extend_from_slice(b"  ");
    for octet in path {
        match octet {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            octet => line.push(*octet),
        }
    }
    line
}

fn unescape(path: &[u8]) -> Option<Vec<u8>> {
    let mut octets = path.iter();
    let mut plain = Vec::with_capacity(path.len());
    while let Some(octet) = octets.next() {
        plain.push(match octet {
            b'\\' => match octets.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            octet => *octet,
        });
    }
    Some(plain)
}

const CRC128_DIGITS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_other_tools_are_read() {
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        let sum = Sum::parse(format!("{md5}  a b").as_bytes(), None).unwrap();
        assert_eq!(
            (sum.path.as_slice(), sum.digits.as_str()),
            (&b"a b"[..], md5)
        );
        assert_eq!(sum.wanted.hashes, [hash::HashKind::Md5]);
        let sum = Sum::parse(format!("{} *x", md5.to_uppercase()).as_bytes(), None).unwrap();
        assert_eq!(sum.digits, md5);
        let long = "0".repeat(64);
        let sum = Sum::parse(format!("{long}  x").as_bytes(), None).unwrap();
        assert_eq!(
            sum.wanted.hashes,
            [hash::HashKind::Sha256, hash::HashKind::Blake3]
        );
        let kind = Some(hash::HashKind::Blake3);
        let sum = Sum::parse(format!("{long}  x").as_bytes(), kind).unwrap();
        assert_eq!(sum.wanted.hashes, [hash::HashKind::Blake3]);
        let event =
            format!(r#"{{"v":1,"path":"x","path_hex":"ff","size":3,"digest":"crc128:{md5}"}}"#);
        let sum = Sum::parse(event.as_bytes(), None).unwrap();
        assert_eq!((sum.path.as_slice(), sum.size), (&b"\xff"[..], Some(3)));
        assert!(sum.wanted.crc128);
        for bad in [
            "",
            "x",
            "d41d  x",
            &format!("{md5} x"),
            &format!("{md5}  "),
            &format!("\\{md5}  \\x"),
            &format!("{}  x", md5.replace('d', "g")),
            "{}",
            r#"{"path":"x","digest":"sha256:00"}"#,
            r#"{"path":"x","digest":"none:00"}"#,
        ] {
            assert_eq!(Sum::parse(bad.as_bytes(), None), None, "{bad}");
        }
        assert_eq!(Sum::parse(format!("{md5}  x").as_bytes(), kind), None);
    }

    proptest! {
        #[test]
        fn written_line_round_trips(path in proptest::collection::vec(any::<u8>(), 1..40)) {
            let digits = "0123456789abcdef0123456789abcdef";
            let line = line(digits, &path);
            prop_assert!(!line.contains(&b'\n'));
            let sum = Sum::parse(&line, None).unwrap();
            prop_assert_eq!((sum.path, sum.digits.as_str()), (path, digits));
        }

        #[test]
        fn arbitrary_line_parses_without_panic(
            line in prop_oneof![
                any::<Vec<u8>>(),
                "\\\\?[0-9a-fA-F]{32}[ *\t]{1,3}[a-z/. \\\\]{0,9}".prop_map(String::into_bytes),
            ],
        ) {
            if let Some(sum) = Sum::parse(&line, None) {
                prop_assert!(!sum.path.is_empty());
                let lower = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
                prop_assert!(!sum.digits.is_empty() && sum.digits.bytes().all(lower));
                // what was understood can be written, and is understood again
                let again = Sum::parse(&self::line(&sum.digits, &sum.path), None);
                prop_assert_eq!(again.map(|again| again.path), Some(sum.path));
            }
        }
    }
}
