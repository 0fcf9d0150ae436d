//! Messages of a delta transfer.
//!
//! ```text
//! receiver                                                            sender
//!   | WantedFile with a basis, on the stream of the list --------------> |
//!   | <------------------------------------------------ Delta::Begin     |  or Delta::Decline
//!   | Sums of the blocks of the basis ---------------------------------> |
//!   | <------------------------------------------------ Delta::Parts     |  (many)
//!   | Seeded: parts that differ and must be sent ----------------------> |
//!   | <------------------------------------------------ Delta::End       |
//!   | the last Seeded -------------------------------------------------> |
//! ```

use lighthaul_files::delta::parts::Part;
use lighthaul_files::object::Span;
use lighthaul_io::control::bounded;
use lighthaul_session::peer_text;
use lighthaul_session::topic::ITEMS_MAX;
use serde::{Deserialize, Serialize};

/// Most parts in one message.
pub(crate) const PARTS_A_MESSAGE: usize = 1 << 10;
/// Most deltas that have begun and not ended.
pub(crate) const DELTAS_MAX: usize = 16;

/// Message of the sender about the delta of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// Number of the file.
    pub entry: u64,
    /// What the sender does.
    pub step: DeltaStep,
}

/// Step of a delta.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeltaStep {
    /// Asks for the sums of the basis.
    Begin {
        /// Length of blocks in bytes.
        block: u32,
        /// Key of the sums.
        key: [u8; 32],
    },
    /// Everything will be sent, and no sums are needed.
    Decline,
    /// Next parts of the source.
    Parts(#[serde(deserialize_with = "bounded::list::<PARTS_A_MESSAGE, _, _>")] Vec<Part>),
    /// All parts were named.
    End,
    /// The file changed, vanished or could not be read.
    Failed {
        /// Exit status.
        code: u8,
        /// Reason.
        #[serde(deserialize_with = "peer_text::read_reason")]
        why: String,
    },
}

/// Sums of the next blocks of a basis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Number of the file.
    pub entry: u64,
    /// Encoded sums, one after the other.
    pub octets: Vec<u8>,
    /// True if no more come.
    pub last: bool,
}

/// Result of copying parts from a basis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeded {
    /// Number of the file.
    pub entry: u64,
    /// Parts whose bytes differ, and which must be sent.
    #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
    pub wanted: Vec<Span>,
    /// True after the end of the delta, if no more come.
    pub last: bool,
}
