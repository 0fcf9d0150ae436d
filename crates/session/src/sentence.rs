//! Sentences of a peer, escaped and cut where they are decoded, so that nothing behind can show them raw.

use lighthaul_base::escape::{TEXT_MAX, escape};
use serde::{Deserialize, Deserializer};

/// Decodes a sentence as one harmless line of at most [`TEXT_MAX`] octets.
pub fn read<'a, D: Deserializer<'a>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    Ok(escape(&text, TEXT_MAX).into_owned())
}
