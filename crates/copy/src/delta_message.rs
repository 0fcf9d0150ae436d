//! Messages of a delta transfer.
//!
//! ```text
//! receiver                                                              sender
//!   | Wanted, with the size of a basis --------------------------------> |
//!   | <---------------------------------------------------- RequestSums  |  unless all will be sent
//!   | Sums of its blocks ----------------------------------------------> |  (many)
//!   | <----------------------------------- Delta: copies, digest, gaps   |  (many)
//!   | Compared: if the copies differ, they must be sent ---------------> |
//! ```
//!
//! Gaps of a stretch are sent like other wanted ranges. Each byte of these is in one stretch.

use lighthaul_files::delta::stretch::{COPIES_MAX, Copied};
use lighthaul_files::object::Span;
use lighthaul_io::control::bounded;
use serde::{Deserialize, Serialize};

use crate::report::Report;

/// Maximum number of bases with requested sums that have not all arrived.
pub const BASES_MAX: usize = 64;

/// Request of the sender for the sums of a basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumsRequest {
    /// Number of the file.
    pub entry: u64,
    /// Length of blocks in bytes.
    pub block: u32,
    /// Key of the sums.
    pub key: [u8; 32],
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

/// Stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaStretch {
    /// Number of the file.
    pub entry: u64,
    /// Range in the file.
    pub span: Span,
    /// Parts of the range that the basis has, in order. The sender sends the rest.
    #[serde(deserialize_with = "bounded::list::<COPIES_MAX, _, _>")]
    pub copies: Vec<Copied>,
    /// BLAKE3 digest of the bytes of all copies, or the reason why the file failed.
    pub report: Report,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guide_has_the_limit_of_requests() {
        let page = include_str!("../../../docs/src/wire.md");
        let limit = format!("At most {BASES_MAX} requests may wait for their `last`.");
        assert!(page.contains(&limit), "{limit}");
    }
}
