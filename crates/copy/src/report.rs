//! Report about bytes that the sender has read.

use lighthaul_files::digest::Digest;
use lighthaul_session::peer_text;
use serde::{Deserialize, Serialize};

/// Report of the sender about a part of a file, after it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Digest of the part.
    Digest(Digest),
    /// The file changed, vanished or could not be read.
    Failed {
        /// Exit status.
        code: u8,
        /// Reason of the failure.
        #[serde(deserialize_with = "peer_text::read_reason")]
        why: String,
    },
}
