//! Attributes of objects, as stores tell them.

use crate::body::Body;

/// Time since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds after them.
    pub nanos: u32,
}

/// Object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Key of the object.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// Time at which the store took the object.
    pub modified: Stamp,
    /// Version of the object.
    pub etag: Option<String>,
}

/// Attributes of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Size in bytes.
    pub size: u64,
    /// Time at which the store took the object.
    pub modified: Stamp,
    /// Version of the object.
    pub etag: Option<String>,
    /// Modification time of the file that was uploaded, in the metadata `mtime` as rclone writes it.
    pub stamp: Option<Stamp>,
    /// CRC-64/NVME of the whole object, if the store knows it.
    pub crc: Option<u64>,
    /// SHA-256 of the whole object, if the store knows it.
    pub sha256: Option<[u8; 32]>,
    /// MD5 of the whole object, if the store knows it, or if rclone has noted it in the metadata.
    pub md5: Option<[u8; 16]>,
}

/// Part of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// Objects, in the order of the store.
    pub objects: Vec<Listed>,
    /// Common prefixes, if the list ends at slashes.
    pub folders: Vec<String>,
    /// Token of the next page.
    pub next: Option<String>,
}

/// Bytes of an object.
#[derive(Debug)]
pub struct Piece {
    /// The bytes.
    pub bytes: Body,
    /// Attributes in the answer.
    pub attributes: Attributes,
}

/// Condition under which an object is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// None.
    #[default]
    Always,
    /// There is no such object.
    Absent,
    /// The object is still the one with this `ETag`.
    Unchanged(String),
}

/// End of an upload in parts: what is known of the whole object.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    /// Modification time of the file, with which the upload began.
    pub stamp: Option<Stamp>,
    /// CRC-64/NVME of all parts, if the store reports those of parts.
    pub crc: Option<u64>,
    /// Condition under which the object gets its name.
    pub condition: &'a Condition,
}

/// Part of an upload that the store has.
#[derive(Clone, Debug)]
pub struct HeldPart {
    /// Number, from 1.
    pub number: u32,
    /// Size in bytes.
    pub size: u64,
    /// Name of its contents.
    pub etag: String,
    /// CRC-64/NVME, if the store reports it.
    pub crc: Option<u64>,
}

impl Stamp {
    /// Creates a time from parts with equal signs.
    pub const fn of(seconds: i64, nanos: i32) -> Self {
        Self {
            seconds,
            nanos: nanos.unsigned_abs(),
        }
    }

    /// Reads seconds, with a fraction if there is one.
    pub fn parse(text: &str) -> Option<Self> {
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
        if !fraction.bytes().all(|octet| octet.is_ascii_digit()) {
            return None;
        }
        let digits = &fraction[..fraction.len().min(9)];
        let nanos = format!("{digits:0<9}").parse().ok()?;
        Some(Self {
            seconds: seconds.parse().ok()?,
            nanos,
        })
    }

    /// Returns it as [`Self::parse`] reads it.
    pub fn text(self) -> String {
        format!("{}.{:09}", self.seconds, self.nanos)
    }
}

impl Attributes {
    /// Returns the modification time that a file with this content gets.
    pub fn time(&self) -> Stamp {
        self.stamp.unwrap_or(self.modified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_other_programs_write_them() {
        let stamp = |seconds, nanos| Some(Stamp { seconds, nanos });
        for (text, time) in [
            ("1700000000", stamp(1_700_000_000, 0)),
            ("1700000000.5", stamp(1_700_000_000, 500_000_000)),
            ("-3.000000001", stamp(-3, 1)),
            ("1.0000000019", stamp(1, 1)),
            ("", None),
            ("x.5", None),
            ("1.é", None),
        ] {
            assert_eq!(Stamp::parse(text), time, "{text}");
        }
        let time = Stamp {
            seconds: 7,
            nanos: 9,
        };
        assert_eq!(Stamp::parse(&time.text()), Some(time));
    }
}
