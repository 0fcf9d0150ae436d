//! Options of a copy. Both sides know all of them.
//!
//! [`Options`] is a part of the request that starts a copy, so each side decides by the same
//! options. The command line converts its arguments to these fields. Fields that a peer sends have
//! limits. [`Planned`] describes the action on one entry, for dry runs and itemized copies. A
//! receiver that serves others limits the options further by [`Permit`](crate::permit::Permit).

use std::time::Duration;

use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::metadata::Keep;
use lighthaul_io::control::bounded;
use lighthaul_session::peer_text;
use lighthaul_session::protocol::NAME_MAX;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::error::Fault;
use crate::filter::Rules;
use crate::hash::{HASHES_MAX, HashRequest};
use crate::item::Item;
use crate::manifest::{PATH_MAX, PATH_SHOWN_MAX};
use crate::mode_changes::ModeChanges;
use crate::naming::Naming;
use crate::skip::Skip;
use crate::walk::WalkOptions;

/// Longest silence of the peer, unless the user gives one.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Octets of a circuit's vector: the largest number of steps fits, each a table of TOML.
const TRC_MAX: usize = 512 << 10;

/// Maximum number of directories with files to link to, as in rsync.
pub const REFERENCES_MAX: usize = 20;
/// Maximum number of octets of a suffix: no name is longer.
pub const SUFFIX_MAX: usize = 255;

/// Options of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
// fields: message on the wire, one for each option of a copy
pub struct Options {
    /// Random number of the copy, the same for all its attempts; none for a copy of one attempt.
    pub copy: Option<[u8; 16]>,
    /// Rules that select files.
    pub rules: Rules,
    /// True if a list of paths names the entries (`--files-from`), instead of a walk of the
    /// sources.
    pub listed: bool,
    /// Metadata to preserve.
    pub keep: Keep,
    /// Preserves hard links.
    pub hard_links: bool,
    /// Writes runs of zeros as holes (`--sparse`).
    pub sparse: bool,
    /// Compares files by digest, not by size and time.
    pub checksum: bool,
    /// Keeps files that are newer at the target.
    pub update: bool,
    /// Deletes files at the target that the source does not have.
    pub delete: bool,
    /// Maximum number of items that are deleted, if any.
    pub max_delete: Option<u64>,
    /// Entries that the copy leaves unchanged at the target.
    pub skip: Skip,
    /// Copies the targets of symbolic links instead of the links.
    pub copy_links: bool,
    /// Stays on the file system of each source.
    pub one_file_system: bool,
    /// Removes files and links at the source when they are in place at the target.
    pub remove_source: bool,
    /// Changes of permission bits.
    pub chmod: ModeChanges,
    /// Place of replaced and deleted files; none to keep no backups.
    pub backup: Option<Backup>,
    /// Directories with files to which unchanged files become hard links.
    #[serde(deserialize_with = "bounded::rows::<REFERENCES_MAX, PATH_MAX, _>")]
    pub link_dest: Vec<Vec<u8>>,
    /// Reports each entry that was changed.
    pub itemize: bool,
    /// Reports the actions with the given detail, and changes nothing.
    pub dry_run: Option<Detail>,
    /// Replaces and removes devices, FIFOs and sockets like files.
    pub replace_special: bool,
    /// Writes files under their final names from the start.
    pub inplace: bool,
    /// Name of the directory for temporary files, beside the final path of each file.
    #[serde(deserialize_with = "bounded::option_list::<PATH_MAX, _, _>")]
    pub partial_dir: Option<Vec<u8>>,
    /// Longest silence of the peer in seconds; zero for the default.
    pub stall: u32,
    /// Writes data to disk before a file gets its final name.
    pub sync: bool,
    /// Reads files back from the device and compares them before they get their final names.
    pub verify_disk: bool,
    /// Hashes to compute of every file.
    #[serde(deserialize_with = "bounded::list::<HASHES_MAX, _, _>")]
    pub hash: Vec<HashRequest>,
    /// Name of the protocol, or [`lighthaul_session::protocol::AUTO`]; empty for the default.
    #[serde(deserialize_with = "bounded::text::<NAME_MAX, _>")]
    pub protocol: String,
    /// Streams that `ptcp` uses; zero to find the best number.
    pub streams: u8,
    /// Vector of the circuit, relative to the start of the data; empty without a circuit.
    #[serde(deserialize_with = "bounded::text::<TRC_MAX, _>")]
    pub trc: String,
    /// Nanoseconds from this message to the start of the vector; none if the vector begins with the
    /// data.
    pub trc_in: Option<i64>,
    /// True if no other flow uses the path.
    pub dedicated: bool,
    /// Kind of the digest of each piece.
    pub digest: digest::DigestKind,
    /// Files that are sent as deltas.
    pub delta: DeltaMode,
    /// Part of a copy that several pairs of hosts make together.
    pub striped: Option<Striped>,
}

/// Part of a copy that several pairs of hosts make together (striping).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Striped {
    /// Random number of the whole copy, the same in all of its parts.
    pub run: [u8; 16],
    /// This part.
    pub part: StripedPart,
}

/// Parts of a striped copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StripedPart {
    /// Receives listed files and ranges into staged files, and publishes nothing.
    Stage {
        /// Names of the entries in the whole copy.
        naming: Naming,
        /// True if the target directory may belong to this copy.
        is_whole: bool,
    },
    /// Publishes the staged files, and copies everything that is missing.
    Publish {
        /// Names of the entries in the whole copy, if a list selects those of one target.
        naming: Option<Naming>,
    },
}

/// Files that are sent as deltas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeltaMode {
    /// Files for which a delta is likely faster than the whole file.
    #[default]
    Auto,
    /// All files that have an old version at the target.
    Always,
    /// None.
    Never,
}

impl Options {
    /// Fails if options lose data together. The library, both sides of a copy and the command line check this.
    pub fn check(&self) -> Result<(), Fault> {
        let backup = self.backup.is_some();
        let contradictions = [
            (
                self.remove_source && self.digest == digest::DigestKind::None,
                "--remove-source-files removes only what was verified; omit --verify=none",
            ),
            (
                self.inplace && (backup || self.update || self.skip.existing),
                "--inplace writes into the file at the target; omit --backup, --update and --ignore-existing",
            ),
            (
                self.inplace && !self.link_dest.is_empty(),
                "--inplace would write into the files that --link-dest shares; omit one of them",
            ),
            (
                self.remove_source && backup,
                "--remove-source-files cannot be combined with --backup: a backup can replace a file that was just moved",
            ),
            (
                self.remove_source && self.delete,
                "--remove-source-files cannot be combined with --delete: a retry would delete what was just moved",
            ),
        ];
        match contradictions.into_iter().find(|(are_set, _)| *are_set) {
            Some((_, text)) => Err(Fault::Contradiction(text)),
            None => Ok(()),
        }
    }

    /// Returns true if the user gave the expected hash of the only file.
    pub fn expects(&self) -> bool {
        self.hash.iter().any(|asked| asked.expected.is_some())
    }

    /// Returns true if files are staged, and another part of the copy publishes them.
    pub const fn stages(&self) -> bool {
        matches!(
            self.striped,
            Some(Striped {
                part: StripedPart::Stage { .. },
                ..
            })
        )
    }

    /// Returns true if the entries are all contents of the target directory, unless a list selects some.
    pub const fn has_whole_target(&self) -> bool {
        match self.striped {
            Some(Striped {
                part: StripedPart::Stage { is_whole, .. },
                ..
            }) => is_whole,
            _ => !self.listed,
        }
    }

    /// Returns true if holes are read before they are left out: for BLAKE3, `--verify=disk`, and source files that will
    /// be removed. A dry run reads none.
    pub fn reads_holes(&self) -> bool {
        let is_strong = self.verify_disk || self.digest == digest::DigestKind::Blake3;
        (is_strong || self.remove_source) && self.dry_run.is_none()
    }

    /// Returns the options of the walk at the source.
    pub fn walk(&self) -> WalkOptions {
        WalkOptions {
            rules: self.rules.clone(),
            one_file_system: self.one_file_system,
        }
    }

    /// Returns the part of the file system in which sources are read.
    pub fn sources(&self, access: FileAccess) -> FileAccess {
        if self.copy_links {
            access.following()
        } else {
            access
        }
    }

    /// Returns the longest silence of the peer, which reports twenty times a second.
    pub fn stall_timeout(&self) -> Duration {
        match self.stall {
            0 => STALL_TIMEOUT,
            seconds => Duration::from_secs(seconds.into()),
        }
    }
}

/// Place of replaced and deleted files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Directory for backups, relative to the target; none for the directory of each file.
    #[serde(deserialize_with = "bounded::option_list::<PATH_MAX, _, _>")]
    pub folder: Option<Vec<u8>>,
    /// Suffix of the names of backups.
    #[serde(deserialize_with = "bounded::list::<SUFFIX_MAX, _, _>")]
    pub suffix: Vec<u8>,
}

/// Action on one entry, of a dry run or of a copy that reports each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Action that a copy would take.
    pub action: Action,
    /// Path relative to the target.
    #[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Bytes of the file that would be sent.
    pub bytes: u64,
    /// Bytes from an earlier copy that would be kept if they are still equal at the source.
    pub kept: u64,
    /// Reason for the action.
    #[serde(deserialize_with = "peer_text::read")]
    pub why: String,
    /// Differences as rsync itemizes them, if the copy reports each entry.
    pub item: Option<Item>,
}

/// Actions of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Creates the entry.
    Create,
    /// Replaces the entry at the target.
    Replace,
    /// Leaves an equal entry unchanged.
    Keep,
    /// Changes mode, owner, time or attributes only.
    Change,
    /// Deletes an entry that the source does not have.
    Delete,
    /// Leaves the entry out because of a rule.
    Exclude,
    /// Creates a hard link to an unchanged file of another directory.
    Link,
    /// Leaves the entry at the target unchanged because of an option.
    Skip,
}

/// Detail of the report of a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Detail {
    /// Changes only.
    Brief,
    /// Unchanged entries, too.
    All,
    /// All entries, with reasons.
    Explain,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_lose_data_together_are_refused() {
        type Set<'a> = (&'a str, &'a dyn Fn(&mut Options));
        let backup = Backup {
            folder: None,
            suffix: b"~".to_vec(),
        };
        let set: [Set<'_>; 8] = [
            ("inplace", &|options| options.inplace = true),
            ("remove", &|options| options.remove_source = true),
            ("update", &|options| options.update = true),
            ("existing", &|options| options.skip.existing = true),
            ("backup", &|options| options.backup = Some(backup.clone())),
            ("link", &|options| options.link_dest = vec![b"x".to_vec()]),
            ("delete", &|options| options.delete = true),
            ("none", &|options| options.digest = digest::DigestKind::None),
        ];
        let mut refused = Vec::new();
        for (nth, (one, set_one)) in set.iter().enumerate() {
            for (other, set_other) in &set[nth..] {
                let mut options = Options::default();
                set_one(&mut options);
                set_other(&mut options);
                if options.check().is_err() {
                    refused.push(format!("{one} {other}"));
                }
            }
        }
        let expected = [
            "inplace update",
            "inplace existing",
            "inplace backup",
            "inplace link",
            "remove backup",
            "remove delete",
            "remove none",
        ];
        assert_eq!(refused, expected);
    }

    #[test]
    fn silent_peer_ends_the_session_after_20_s_or_the_requested_time() {
        let patience = |stall| {
            let options = Options {
                stall,
                ..Options::default()
            };
            options.stall_timeout()
        };
        assert_eq!(patience(0), Duration::from_secs(20));
        assert_eq!(patience(3), Duration::from_secs(3));
    }
}
