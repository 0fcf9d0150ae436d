//! What of a file's metadata a peer may set, as the side that receives decides.

use lighthaul_io::fs::metadata::{Keep, MetadataKind, NotKept, NotKeptReason};
use rustix::fs::FileType;

use crate::manifest::{Entry, Kind};

/// What a peer may set besides names, bytes, permissions, times, `user.*` attributes and access lists. The default is
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permit {
    /// Users and groups.
    pub owners: bool,
    /// Set-user-ID, set-group-ID and sticky bits, `security.*` and `trusted.*` attributes; and replacing or removing
    /// devices, FIFOs and sockets.
    pub special: bool,
}

impl Permit {
    /// All that the system lets us do: for copies that the user asked for here.
    pub const ALL: Self = Self {
        owners: true,
        special: true,
    };

    /// What is to be kept, as far as that may be set.
    pub(crate) const fn limit(self, keep: Keep) -> Keep {
        Keep {
            owner: keep.owner && self.owners,
            ..keep
        }
    }

    /// Takes from `entry` what may not be set, and returns what that was of all that is to be kept.
    pub(crate) fn apply(self, entry: &mut Entry, keep: Keep) -> Vec<NotKept> {
        let mut withheld = Vec::new();
        let mut withhold = |part| {
            withheld.push(NotKept {
                part,
                reason: NotKeptReason::Withheld,
            });
        };
        let lends = entry.mode & SET_ID != 0;
        let is_file = matches!(entry.kind, Kind::File(_));
        if !self.special && entry.mode & SPECIAL != 0 {
            if keep.owner || !is_file || !lends {
                withhold(MetadataKind::SetId);
            }
            entry.mode &= !SPECIAL;
        } else if is_file && lends && !self.limit(keep).owner {
            // another owner's rights are not for whoever runs it
            if keep.owner {
                withhold(MetadataKind::SetId);
            }
            entry.mode &= !SET_ID;
        }
        let Some(extras) = &mut entry.extras else {
            return withheld;
        };
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

/// What files have that are not given to anybody.
fn ours() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}

fn is_privileged(name: &[u8]) -> bool {
    name.starts_with(b"security.") || name.starts_with(b"trusted.")
}

/// What a device, FIFO or socket is called; nothing for anything else.
pub(crate) fn special(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::BlockDevice | FileType::CharacterDevice => Some("device"),
        FileType::Fifo => Some("FIFO"),
        FileType::Socket => Some("socket"),
        FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown => None,
    }
}

/// Set-user-ID and set-group-ID, and these with the sticky bit.
const SET_ID: u32 = 0o6000;
pub(super) const SPECIAL: u32 = 0o7000;

#[cfg(test)]
mod tests {
    use lighthaul_io::fs::metadata::Extras;

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
            kind: Kind::File(1),
            extras: Some(Box::new(extras)),
            ..Entry::gone(b"program".to_vec())
        }
    }

    const ALL: Keep = Keep {
        mode: true,
        owner: true,
        accessed: true,
        modified: true,
        xattrs: true,
        acls: true,
    };

    #[test]
    fn by_default_a_peer_sets_no_owner_no_special_bit_and_no_privileged_attribute() {
        let mut entry = program();
        let withheld = Permit::default().apply(&mut entry, ALL);
        assert_eq!(entry.mode & 0o7777, 0o755);
        let extras = entry.extras.unwrap();
        assert_eq!((extras.owner, extras.xattrs.len()), (None, 1));
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
        // folders have such bits, too
        let mut folder = Entry {
            mode: 0o43_777,
            kind: Kind::Folder,
            ..Entry::gone(b"folder".to_vec())
        };
        assert_eq!(
            Permit::default().apply(&mut folder, Keep::default()).len(),
            1
        );
        assert_eq!(folder.mode & 0o7777, 0o777);
    }

    #[test]
    fn rights_lift_that_and_a_set_id_bit_takes_both() {
        let mut entry = program();
        assert_eq!(Permit::ALL.apply(&mut entry, ALL), []);
        assert_eq!(entry, program());
        let special = Permit {
            owners: false,
            special: true,
        };
        let parts: Vec<_> = special
            .apply(&mut entry, ALL)
            .iter()
            .map(|note| note.part)
            .collect();
        assert_eq!(parts, [MetadataKind::SetId, MetadataKind::Owner]);
        assert_eq!(
            entry.mode & 0o7777,
            0o755,
            "whoever owns it, it is not who was meant"
        );
        // who wants no owners kept is told nothing
        let mut entry = program();
        assert_eq!(Permit::ALL.apply(&mut entry, Keep::default()), []);
        assert_eq!(entry.mode & 0o7777, 0o755);
    }
}
