//! What somebody wants of a copy besides its places; both sides know all of it.

use std::time::Duration;

use lighthaul_io::control::bounded;
use lighthaul_io::fs::metadata::Keep;
use lighthaul_session::protocol::NAME_MAX;
use lighthaul_session::sentence;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::filter::Rules;
use crate::hash::{Asked, HASHES_MAX};
use crate::manifest::{PATH_MAX, PATH_SHOWN_MAX};

/// How long the peer may say nothing, if nobody says.
const PATIENCE: Duration = Duration::from_secs(20);
/// Octets of a circuit's vector: as many steps as one may have fit, each a table of TOML.
const TRC_MAX: usize = 512 << 10;

/// How to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Options {
    /// Which copy this is, the same number for all of its tries; none if it is tried only once.
    pub copy: Option<[u8; 16]>,
    /// Which files are taken.
    pub rules: Rules,
    /// Paths come from a list that the receiver sends, not from a walk.
    pub listed: bool,
    /// What is kept besides names, bytes, modes and times of the last change.
    pub keep: Keep,
    /// Names of one file stay names of one file.
    pub hard_links: bool,
    /// Zeros are not written, in any file.
    pub sparse: bool,
    /// Files are alike if their digests are, not if sizes and times are.
    pub checksum: bool,
    /// Files that are newer at the target stay.
    pub update: bool,
    /// What is at the target and not at the source goes.
    pub delete: bool,
    /// Nothing is done, but told, in this detail.
    pub dry_run: Option<Detail>,
    /// Devices, FIFOs and sockets are replaced and removed as files are.
    pub replace_special: bool,
    /// Files are written under their own names.
    pub inplace: bool,
    /// Files are written in a folder of this name beside their places.
    #[serde(deserialize_with = "bounded::option_list::<PATH_MAX, _, _>")]
    pub partial_dir: Option<Vec<u8>>,
    /// For how many seconds the peer may say nothing; zero for as many as is usual.
    pub stall: u32,
    /// Bytes are on disk before a name appears.
    pub sync: bool,
    /// The target is read back from its device and compared before a name appears.
    pub verify_disk: bool,
    /// What others want to know of every file.
    #[serde(deserialize_with = "bounded::list::<HASHES_MAX, _, _>")]
    pub hash: Vec<Asked>,
    /// The protocol's name, or [`lighthaul_session::protocol::AUTO`]; none for the usual one.
    #[serde(deserialize_with = "bounded::text::<NAME_MAX, _>")]
    pub protocol: String,
    /// How many streams `ptcp` uses; zero for as many as turn out to be worth it.
    pub streams: u8,
    /// When a circuit carries how much, from when the data begin to move; empty if there is none.
    #[serde(deserialize_with = "bounded::text::<TRC_MAX, _>")]
    pub trc: String,
    /// In how many nanoseconds the vector begins, from when this was said, if it does not wait for the data.
    pub trc_in: Option<i64>,
    /// Others use the path and are to have their part of it.
    pub shared: bool,
    /// The digest of each piece of a file.
    pub digest: digest::Kind,
}

impl Options {
    /// Whether it is known what the bytes of the one file must come to.
    pub fn expects(&self) -> bool {
        self.hash.iter().any(|asked| asked.expected.is_some())
    }

    /// How long the peer may say nothing; it reports twenty times a second.
    pub fn patience(&self) -> Duration {
        match self.stall {
            0 => PATIENCE,
            seconds => Duration::from_secs(seconds.into()),
        }
    }
}

/// What would become of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// What would be done.
    pub action: Action,
    /// With what, seen from the target.
    #[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Bytes of the file that would cross.
    pub bytes: u64,
    /// Bytes of it that an earlier copy left, and that would be kept if they are still the source's.
    pub kept: u64,
    /// Why.
    #[serde(deserialize_with = "sentence::read")]
    pub why: String,
}

/// What would be done with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// It is not there, and would be.
    Create,
    /// It would take the place of what is there.
    Replace,
    /// It stays as it is.
    Keep,
    /// It stays, but for its mode, owner, time or attributes.
    Change,
    /// It is not at the source, and would go.
    Delete,
    /// A rule leaves it out.
    Exclude,
}

/// How much a dry run tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Detail {
    /// What would change.
    Brief,
    /// What would not change, too.
    All,
    /// And why.
    Explain,
}
