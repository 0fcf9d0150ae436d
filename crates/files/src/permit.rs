//! Metadata that a peer may set, as the receiving side decides.
//!
//! The options of a copy come from the peer, but a daemon gives each key its own rights.
//! [`Permit::limit`] reduces the selection of metadata, and [`Permit::apply`] removes values from
//! each entry. The copy continues without them, and reports each removed part. Set-user-ID and
//! set-group-ID bits of a file are also removed if its owner is not preserved.

use lighthaul_fs::metadata::{Keep, MetadataKind, NotKept, NotKeptReason};

use crate::manifest::{Entry, EntryKind};

/// Metadata that a peer may set besides names, contents, permissions, times, `user.*` attributes
/// and access lists. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permit {
    /// True to set users and groups.
    pub owners: bool,
    /// True to set set-user-ID, set-group-ID and sticky bits, `security.*` and `trusted.*`
    /// attributes, and to replace or remove devices, FIFOs and sockets.
    pub special: bool,
}

impl Permit {
    /// Everything that the kernel permits, for copies that the user of this host requested.
    pub const ALL: Self = Self {
        owners: true,
        special: true,
    };

    /// Returns the part of `keep` that may be set.
    pub const fn limit(self, keep: Keep) -> Keep {
        Keep {
            owner: keep.owner && self.owners,
            ..keep
        }
    }

    /// Removes the metadata of `entry` that may not be set, or that `keep` does not ask for. Returns the parts that may
    /// not be set although `keep` asks for them.
    pub fn apply(self, entry: &mut Entry, keep: Keep) -> Vec<NotKept> {
        let mut withheld = Vec::new();
        let mut withhold = |part| {
            withheld.push(NotKept {
                part,
                reason: NotKeptReason::Withheld,
            });
        };
        let lends = entry.mode & SET_ID != 0;
        let is_file = matches!(entry.kind, EntryKind::File(_));
        if !self.special && entry.mode & SPECIAL != 0 {
            if keep.owner || !is_file || !lends {
                withhold(MetadataKind::SetId);
            }
            entry.mode &= !SPECIAL;
        } else if is_file && lends && !self.limit(keep).owner {
            // the program would run with the rights of another owner than at the source
            if keep.owner {
                withhold(MetadataKind::SetId);
            }
            entry.mode &= !SET_ID;
        }
        entry.extras = entry.extras.take().filter(|_| keep.has_extras());
        let Some(extras) = &mut entry.extras else {
            return withheld;
        };
        extras.select(keep);
        let is_owner = extras.owner.is_some_and(|owner| owner != ours());
        if !self.owners && extras.owner.take().is_some() && is_owner {
            withhold(MetadataKind::Owner);
        }
        let count = extras.xattrs.len();
        extras
            .xattrs
            .retain(|(name, _)| self.special || !is_privileged(name));
        if extras.xattrs.len() < count {
            withhold(MetadataKind::RootAttributes);
        }
        withheld
    }
}

/// Returns the user and group of new files.
fn ours() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}

fn is_privileged(name: &[u8]) -> bool {
    name.starts_with(b"security.") || name.starts_with(b"trusted.")
}

/// Set-user-ID and set-group-ID bits.
const SET_ID: u32 = 0o6000;
/// Set-user-ID, set-group-ID and sticky bits.
pub const SPECIAL: u32 = 0o7000;

#[cfg(test)]
mod tests {
    use lighthaul_fs::metadata::Extras;
    use lighthaul_testkit::Ordinary;

    use super::*;

    /// A file with a set-user-ID bit, an owner, and a capability.
    fn program() -> Entry {
        let extras = Extras {
            owner: Some((4321, 4321)),
            xattrs: vec![
                (b"security.capability".to_vec(), vec![1]),
                (b"user.note".to_vec(), vec![2]),
            ],
            ..Extras::default()
        };
        Entry {
            mode: 0o104_755,
            kind: EntryKind::File(1),
            extras: Some(Box::new(extras)),
            ..Entry::bare(b"program".to_vec())
        }
    }

    #[test]
    fn peer_sets_no_owner_special_bit_or_privileged_attribute_by_default() {
        let mut entry = program();
        let withheld = Permit::default().apply(&mut entry, Keep::ALL);
        assert_eq!(entry.mode & 0o7777, 0o755);
        let extras = entry.extras.unwrap();
        let kept = vec![(b"user.note".to_vec(), vec![2])];
        assert_eq!((extras.owner, extras.xattrs), (None, kept));
        let parts: Vec<_> = withheld.iter().map(|note| note.part).collect();
        assert_eq!(
            parts,
            [
                MetadataKind::SetId,
                MetadataKind::Owner,
                MetadataKind::RootAttributes
            ]
        );
        assert!(
            withheld[0].to_string().contains("has no right"),
            "{}",
            withheld[0]
        );
        // directories have these bits, too
        let mut folder = Entry {
            mode: 0o43_777,
            kind: EntryKind::Folder,
            ..Entry::bare(b"folder".to_vec())
        };
        assert_eq!(
            Permit::default().apply(&mut folder, Keep::default()).len(),
            1
        );
        assert_eq!(folder.mode & 0o7777, 0o777);
    }

    #[test]
    fn plain_file_of_the_receiver_keeps_all_bits() {
        let _user = Ordinary::begin();
        let mut entry = program();
        entry.mode = 0o100_644;
        let extras = Extras {
            owner: Some(ours()),
            ..Extras::default()
        };
        entry.extras = Some(Box::new(extras));
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let expected = (user.as_raw(), group.as_raw());
        assert_eq!(entry.extras.as_ref().unwrap().owner, Some(expected));
        assert_eq!(Permit::default().apply(&mut entry, Keep::ALL), []);
        assert_eq!(entry.mode, 0o100_644);
    }

    #[test]
    fn lost_sticky_bit_is_reported_but_not_a_set_id_bit_without_its_owner() {
        for (mode, reported) in [(0o101_755, 1), (0o104_755, 0)] {
            let mut entry = program();
            (entry.mode, entry.extras) = (mode, None);
            let withheld = Permit::default().apply(&mut entry, Keep::default());
            assert_eq!(withheld.len(), reported, "{mode:o}");
            assert_eq!(entry.mode, 0o100_755);
        }
    }

    #[test]
    fn rights_permit_owners_and_special_bits() {
        let mut entry = program();
        assert_eq!(Permit::ALL.apply(&mut entry, Keep::ALL), []);
        assert_eq!(entry, program());
        let special = Permit {
            owners: false,
            special: true,
        };
        let parts: Vec<_> = special
            .apply(&mut entry, Keep::ALL)
            .iter()
            .map(|note| note.part)
            .collect();
        assert_eq!(parts, [MetadataKind::SetId, MetadataKind::Owner]);
        assert_eq!(
            entry.mode & 0o7777,
            0o755,
            "the owner differs from that of the source"
        );
        // no message if owners are not preserved
        let mut entry = program();
        assert_eq!(Permit::ALL.apply(&mut entry, Keep::default()), []);
        assert_eq!(entry.mode & 0o7777, 0o755);
    }
}
