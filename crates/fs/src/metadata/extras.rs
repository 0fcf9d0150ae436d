//! Metadata of a file in messages, within bounds.
//!
//! [`Extras`] are the values of one file, and [`Keep`] selects which of them to read and to apply.
//! Decoding checks the bounds, so an [`Extras`] from a peer is safe to apply:
//!
//! - at most 1024 attributes, with 256 KiB of names and values;
//! - nanoseconds below 10^9, permission bits only, no reserved owner.

use serde::{Deserialize, Deserializer, Serialize};

use lighthaul_io::control::bounded::{self, List};

/// Seconds since 1970, and nanoseconds.
pub type Time = (i64, u32);

/// Name and value of an extended attribute.
type Attribute = (Vec<u8>, Vec<u8>);

/// Metadata of a file: mode, owner, times and attributes. A target leaves absent fields unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Plain", into = "Plain")]
pub struct Extras {
    /// Permission bits, with set-user-ID, set-group-ID and sticky. Absent for a symbolic link.
    pub mode: Option<u32>,
    /// User ID and group ID.
    pub owner: Option<(u32, u32)>,
    /// Time of the last access.
    pub accessed: Option<Time>,
    /// Time of the last modification.
    pub modified: Option<Time>,
    /// Extended attributes, sorted by name. Access lists are `system.posix_acl_*`.
    pub xattrs: Vec<Attribute>,
}

/// Selection of the metadata to read and to apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent option"
)]
pub struct Keep {
    /// Permission bits.
    pub mode: bool,
    /// User ID and group ID.
    pub owner: bool,
    /// Time of the last access.
    pub accessed: bool,
    /// Time of the last modification.
    pub modified: bool,
    /// Extended attributes: `user.*`, and for root also `security.*` and `trusted.*`.
    pub xattrs: bool,
    /// POSIX access control lists.
    pub acls: bool,
}

impl Keep {
    /// All metadata.
    pub const ALL: Self = Self {
        mode: true,
        owner: true,
        accessed: true,
        modified: true,
        xattrs: true,
        acls: true,
    };

    /// Returns true if metadata is kept besides permission bits and the time of the last modification.
    pub const fn has_extras(self) -> bool {
        self.owner || self.accessed || self.xattrs || self.acls
    }
}

impl Extras {
    /// Limit of the octets of one file's attributes, names and values together.
    pub const OCTETS_MAX: usize = 256 << 10;
    /// Limit of the number of one file's attributes.
    pub const COUNT_MAX: usize = 1024;

    /// Removes owner, access time and attributes that `keep` does not select.
    pub fn select(&mut self, keep: Keep) {
        self.owner = self.owner.filter(|_| keep.owner);
        self.accessed = self.accessed.filter(|_| keep.accessed);
        self.xattrs.retain(|(name, _)| {
            let is_list = name.starts_with(b"system.posix_acl_");
            is_list && keep.acls || !is_list && keep.xattrs
        });
    }

    /// Reports whether no field is present.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Fields of [`Extras`] before their bounds are checked.
#[derive(Serialize, Deserialize)]
struct Plain {
    mode: Option<u32>,
    owner: Option<(u32, u32)>,
    accessed: Option<Time>,
    modified: Option<Time>,
    #[serde(deserialize_with = "attributes")]
    xattrs: Vec<Attribute>,
}

/// Name and value of an attribute, each within its bound.
type Bounded = (List<NAME_MAX, u8>, List<{ Extras::OCTETS_MAX }, u8>);

/// Decodes the attributes of a file, within their bounds.
fn attributes<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Attribute>, D::Error> {
    let attributes: Vec<Bounded> = bounded::list::<{ Extras::COUNT_MAX }, _, _>(from)?;
    let plain = attributes.into_iter();
    Ok(plain.map(|(name, value)| (name.0, value.0)).collect())
}

impl TryFrom<Plain> for Extras {
    type Error = &'static str;

    fn try_from(plain: Plain) -> Result<Self, &'static str> {
        let times = plain.accessed.iter().chain(&plain.modified);
        if times.into_iter().any(|(_, nanos)| *nanos >= 1_000_000_000) {
            return Err("a time has 1,000,000,000 nanoseconds or more");
        }
        if plain.mode.is_some_and(|mode| mode > 0o7777) {
            return Err("a mode has bits other than permissions");
        }
        // The kernel takes an ID of all ones as "leave unchanged".
        if plain
            .owner
            .is_some_and(|(user, group)| user.max(group) == u32::MAX)
        {
            return Err("an owner's ID is 4294967295, which is reserved");
        }
        let attributes = plain.xattrs.iter();
        let octets: usize = attributes
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if octets > Self::OCTETS_MAX || plain.xattrs.len() > Self::COUNT_MAX {
            return Err("a file has too many or too large attributes");
        }
        if !plain.xattrs.iter().all(|(name, _)| is_name(name)) {
            return Err("an attribute's name is empty, too long or contains a zero octet");
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

/// Reports whether the kernel accepts `name` as an attribute's name.
fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !name.contains(&0)
}

/// Linux's `XATTR_NAME_MAX`.
const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_rejects_metadata_out_of_bounds() {
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
    #[test]
    fn only_selected_metadata_is_kept() {
        let all = Extras {
            owner: Some((1, 2)),
            accessed: Some((3, 4)),
            xattrs: vec![
                (b"system.posix_acl_access".to_vec(), vec![1]),
                (b"user.x".to_vec(), vec![2]),
            ],
            ..Extras::default()
        };
        let selected = |keep: Keep| {
            let mut extras = all.clone();
            extras.select(keep);
            extras
        };
        assert_eq!(selected(Keep::ALL), all);
        assert!(selected(Keep::default()).is_empty());
        let none = Keep::default();
        let owner = selected(Keep {
            owner: true,
            ..none
        });
        assert_eq!((owner.owner, owner.xattrs.len()), (all.owner, 0));
        let accessed = Keep {
            accessed: true,
            ..none
        };
        assert_eq!(selected(accessed).accessed, all.accessed);
        let xattrs = selected(Keep {
            xattrs: true,
            ..none
        });
        assert_eq!(xattrs.xattrs, all.xattrs[1..]);
        let acls = selected(Keep { acls: true, ..none });
        assert_eq!(acls.xattrs, all.xattrs[..1]);
        assert!(!none.has_extras() && Keep::ALL.has_extras());
    }
}
