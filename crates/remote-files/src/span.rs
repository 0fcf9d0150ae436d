//! Range of a file on the command line: `FIRST-LAST`, `FIRST-` or `-COUNT`, as in HTTP (RFC 9110, section 14.1.2).

use std::str::FromStr;

use lighthaul_base::unsigned;

/// Range of a file whose size is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSpan {
    /// From the first byte to the last one, or to the end of the file.
    From(u64, Option<u64>),
    /// Last bytes of the file.
    Last(u64),
}

/// Text that is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no range; write FIRST-LAST, FIRST- or -COUNT, as in 0-499")]
pub struct NotSpan(String);

impl FromStr for FileSpan {
    type Err = NotSpan;

    fn from_str(text: &str) -> Result<Self, NotSpan> {
        let parsed = text.split_once('-').and_then(|ends| match ends {
            ("", count) => Some(Self::Last(unsigned::number(count)?)),
            (first, "") => Some(Self::From(unsigned::number(first)?, None)),
            (first, last) => {
                let (first, last) = (unsigned::number(first)?, unsigned::number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        });
        parsed.ok_or_else(|| NotSpan(text.to_owned()))
    }
}

impl FileSpan {
    /// Returns the first byte and the end of the range in a file of `size` bytes, or `None` if it begins past the end.
    pub fn within(self, size: u64) -> Option<(u64, u64)> {
        match self {
            Self::Last(count) => Some((size.saturating_sub(count), size)),
            Self::From(0, _) if size == 0 => Some((0, 0)),
            Self::From(first, last) => {
                let end = last.map_or(size, |last| size.min(last.saturating_add(1)));
                (first < size).then_some((first, end))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clipped_to_the_file() {
        for (text, size, found) in [
            ("0-4", 10, Some((0, 5))),
            ("0-99", 10, Some((0, 10))),
            ("3-", 10, Some((3, 10))),
            ("-4", 10, Some((6, 10))),
            ("-40", 10, Some((0, 10))),
            ("10-", 10, None),
            ("9-9", 10, Some((9, 10))),
            ("0-", 0, Some((0, 0))),
            ("0-18446744073709551615", 10, Some((0, 10))),
        ] {
            let span: FileSpan = text.parse().unwrap();
            assert_eq!(span.within(size), found, "{text}");
        }
    }

    #[test]
    fn invalid_texts_of_ranges_are_refused() {
        for text in [
            "",
            "-",
            "5",
            "5-4",
            "a-b",
            "1-2-3",
            "-1-",
            "+1-2",
            "18446744073709551616-",
        ] {
            assert!(text.parse::<FileSpan>().is_err(), "{text}");
        }
    }
}
