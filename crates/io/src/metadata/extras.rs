//! What a file has besides name and bytes, within bounds.

use serde::{Deserialize, Serialize};

/// Seconds since 1970, and nanoseconds.
pub type Time = (i64, u32);

/// What a file has besides name and bytes; what is not there is not to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Plain", into = "Plain")]
pub struct Extras {
    /// Permissions, with the bits for set-user-ID, set-group-ID and sticky; a link has none.
    pub mode: Option<u32>,
    /// User and group, by number.
    pub owner: Option<(u32, u32)>,
    /// When it was last read.
    pub accessed: Option<Time>,
    /// When its bytes were last changed.
    pub modified: Option<Time>,
    /// Extended attributes, access lists among them as `system.posix_acl_*`, in the order of names.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What of it is read, and taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Keep {
    /// Permissions.
    pub mode: bool,
    /// User and group.
    pub owner: bool,
    /// The time of the last access.
    pub accessed: bool,
    /// The time of the last change.
    pub modified: bool,
    /// Attributes: `user.*`, and for root `security.*` and `trusted.*`, too.
    pub xattrs: bool,
    /// POSIX access lists.
    pub acls: bool,
}

impl Extras {
    /// Octets of all attributes of one file, names and values.
    pub const OCTETS_MAX: usize = 256 << 10;
    /// Attributes of one file.
    pub const COUNT_MAX: usize = 1024;

    /// Whether there is nothing to take over.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The same without a promise that bounds hold.
#[derive(Serialize, Deserialize)]
struct Plain {
    mode: Option<u32>,
    owner: Option<(u32, u32)>,
    accessed: Option<Time>,
    modified: Option<Time>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl TryFrom<Plain> for Extras {
    type Error = &'static str;

    fn try_from(plain: Plain) -> Result<Self, &'static str> {
        let times = plain.accessed.iter().chain(&plain.modified);
        if times.into_iter().any(|(_, nanos)| *nanos >= 1_000_000_000) {
            return Err("a time beyond its second");
        }
        if plain.mode.is_some_and(|mode| mode > 0o7777) {
            return Err("a mode that is more than permissions");
        }
        // the kernel takes a number of all ones as "leave it"
        if plain
            .owner
            .is_some_and(|(user, group)| user.max(group) == u32::MAX)
        {
            return Err("an owner that is nobody");
        }
        let attributes = plain.xattrs.iter();
        let octets: usize = attributes
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if octets > Self::OCTETS_MAX || plain.xattrs.len() > Self::COUNT_MAX {
            return Err("more attributes than a file may have");
        }
        if !plain.xattrs.iter().all(|(name, _)| is_name(name)) {
            return Err("an attribute without a proper name");
        }
        Ok(Self {
            mode: plain.mode,
            owner: plain.owner,
            accessed: plain.accessed,
            modified: plain.modified,
            xattrs: plain.xattrs,
        })
    }
}

impl From<Extras> for Plain {
    fn from(extras: Extras) -> Self {
        Self {
            mode: extras.mode,
            owner: extras.owner,
            accessed: extras.accessed,
            modified: extras.modified,
            xattrs: extras.xattrs,
        }
    }
}

/// Whether the kernel would take this as an attribute's name.
fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !name.contains(&0)
}

/// Linux's `XATTR_NAME_MAX`.
const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_out_of_bounds_do_not_come_off_the_wire() {
        let good = Extras {
            mode: Some(0o4755),
            owner: Some((0, 65_534)),
            accessed: Some((-1, 999_999_999)),
            modified: None,
            xattrs: vec![(b"user.a".to_vec(), vec![0, 255])],
        };
        let octets = postcard::to_allocvec(&good).unwrap();
        assert_eq!(postcard::from_bytes(&octets), Ok(good.clone()));
        let bad: [fn(&mut Extras); 7] = [
            |extras| extras.mode = Some(0o10_000),
            |extras| extras.owner = Some((u32::MAX, 0)),
            |extras| extras.modified = Some((0, 1_000_000_000)),
            |extras| extras.xattrs[0].0.clear(),
            |extras| extras.xattrs[0].0 = b"user.\0".to_vec(),
            |extras| extras.xattrs[0].1 = vec![0; Extras::OCTETS_MAX],
            |extras| extras.xattrs = vec![(b"user.a".to_vec(), vec![]); Extras::COUNT_MAX + 1],
        ];
        for (nth, spoil) in bad.iter().enumerate() {
            let mut extras = good.clone();
            spoil(&mut extras);
            let octets = postcard::to_allocvec(&extras).unwrap();
            assert!(postcard::from_bytes::<Extras>(&octets).is_err(), "{nth}");
        }
    }
}
