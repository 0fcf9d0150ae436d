//! Texts of a peer, escaped and shortened when they are decoded, so that they can be shown safely.

use lighthaul_base::escape::{TEXT_MAX, escape};
use serde::{Deserialize, Deserializer};

/// Maximum number of octets of the reason why one entry failed, as a copy may receive many. A path of usual
/// length fits.
const REASON_MAX: usize = 1 << 10;

/// Decodes the reason why one entry failed, as one harmless line of at most 1 KiB.
pub fn read_reason<'a, D: Deserializer<'a>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    let mut line = escape(&text, REASON_MAX).into_owned();
    line.shrink_to_fit();
    Ok(line)
}

/// Decodes a sentence as one harmless line of at most [`TEXT_MAX`] octets.
pub fn read<'a, D: Deserializer<'a>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    Ok(escape(&text, TEXT_MAX).into_owned())
}
