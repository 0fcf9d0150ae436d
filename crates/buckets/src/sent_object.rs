//! Proof that an object is the one that a request has written.
//!
//! A request whose answer is lost is sent again. Its condition then fails, because of the object that it has written
//! itself. The object counts as its own if size, time and bytes are those that were sent.

use bytes::Bytes;

use crate::attributes::{Attributes, Condition, Stamp};
use crate::call_error::{CallError, Reason};
use crate::checksum;

/// Object that a request writes.
#[derive(Debug)]
pub(crate) struct SentObject<'a> {
    pub(crate) key: &'a str,
    pub(crate) size: u64,
    pub(crate) stamp: Option<Stamp>,
    /// CRC-64/NVME of all bytes, if it is known.
    pub(crate) crc: Option<u64>,
    /// All bytes, if they are in memory.
    pub(crate) bytes: Option<&'a Bytes>,
}

impl<'a> SentObject<'a> {
    /// Returns the object of a request that has all bytes.
    pub(crate) fn of_bytes(key: &'a str, bytes: &'a Bytes, stamp: Option<Stamp>) -> Self {
        Self {
            key,
            size: bytes.len() as u64,
            stamp,
            crc: Some(checksum::of(bytes)),
            bytes: Some(bytes),
        }
    }

    /// Returns true if the object that is there may be this one: all but its bytes is compared.
    pub(crate) fn is_like(&self, there: &Attributes) -> bool {
        let is_same = there.size == self.size && there.stamp == self.stamp;
        is_same && (there.crc.is_none() || there.crc == self.crc)
    }
}

/// Returns true if a request may have failed because of the object that an earlier attempt has written.
pub(crate) fn may_be_own(condition: &Condition, refused: &CallError) -> bool {
    match condition {
        Condition::Always => false,
        Condition::Absent => refused.reason == Reason::Condition,
        // the object that it replaces may have been removed
        Condition::Unchanged(_) => matches!(refused.reason, Reason::Condition | Reason::Missing),
    }
}

/// Returns true if checksums show that two objects have the same bytes.
pub(crate) fn are_equal(one: &Attributes, other: &Attributes) -> bool {
    let crcs = one.crc.zip(other.crc).map(|(one, other)| one == other);
    let sha256 = one.sha256.zip(other.sha256);
    let sha256 = sha256.map(|(one, other)| one == other);
    let md5 = one.md5.zip(other.md5).map(|(one, other)| one == other);
    let mut compared = [crcs, sha256, md5].into_iter().flatten().peekable();
    compared.peek().is_some() && compared.all(|is_equal| is_equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_without_a_common_checksum_are_not_equal() {
        let crc = |crc| Attributes {
            crc: Some(crc),
            ..Attributes::default()
        };
        let md5 = |md5| Attributes {
            md5: Some([md5; 16]),
            ..crc(1)
        };
        assert!(are_equal(&crc(1), &crc(1)) && are_equal(&crc(1), &md5(7)));
        assert!(!are_equal(&crc(1), &crc(2)) && !are_equal(&md5(7), &md5(8)));
        assert!(!are_equal(&Attributes::default(), &Attributes::default()));
        assert!(!are_equal(&Attributes::default(), &crc(1)));
    }

    #[test]
    fn only_refused_conditions_are_looked_into() {
        let refused = |reason| CallError::new(reason, "refused");
        let unchanged = Condition::Unchanged("x".to_owned());
        for condition in [&Condition::Absent, &unchanged] {
            assert!(may_be_own(condition, &refused(Reason::Condition)));
            assert!(!may_be_own(condition, &refused(Reason::Denied)));
        }
        assert!(may_be_own(&unchanged, &refused(Reason::Missing)));
        assert!(!may_be_own(&Condition::Absent, &refused(Reason::Missing)));
        assert!(!may_be_own(&Condition::Always, &refused(Reason::Condition)));
    }
}
