//! What can be asked about files where they are, and what is answered.

use lighthaul_io::control::bounded;
use lighthaul_session::sentence;
use lighthaul_session::topic::{ITEMS_MAX, Topic};
use serde::{Deserialize, Serialize};

use crate::manifest::{PATH_MAX, PLACES_MAX};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// List what is in a folder; anything else is listed itself.
    List {
        /// The folder.
        #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
        path: Vec<u8>,
        /// Names that begin with a dot are listed, too.
        hidden: bool,
    },
    /// Say what is at these paths; links are not followed.
    Stat(#[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")] Vec<Vec<u8>>),
    /// Remove what is at these paths.
    Remove {
        /// The paths.
        #[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")]
        paths: Vec<Vec<u8>>,
        /// Folders go with all that is in them.
        recursive: bool,
    },
    /// Make folders.
    Make {
        /// Their paths.
        #[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")]
        paths: Vec<Vec<u8>>,
        /// With those above them, and without complaint if they are there.
        parents: bool,
    },
}

/// A piece of an answer; any number of these, and [`Answer::Done`] last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// What was found.
    Listed(#[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")] Vec<Listed>),
    /// The work goes on; so much was done so far.
    Busy(u64),
    /// Something could not be done.
    Failed {
        /// The exit code.
        code: u8,
        /// The reason.
        #[serde(deserialize_with = "sentence::read")]
        why: String,
    },
    /// That was all; so much was done.
    Done(u64),
}

impl Topic for Answer {
    const NUMBER: u8 = 2;
    type Request = Verb;
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name in the folder that was listed, or else the path that was asked for.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file.
    pub size: u64,
    /// Permissions.
    pub mode: u32,
    /// The number of its owner.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
    /// Last change, seconds since 1970.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanos: u32,
}

/// Kinds of things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, and what it says.
    Link(#[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")] Vec<u8>),
    /// A device, a socket or a pipe.
    Other,
}

impl Verb {
    /// Whether it changes anything.
    pub const fn changes(&self) -> bool {
        matches!(self, Self::Remove { .. } | Self::Make { .. })
    }
}
