//! Objects of random lengths.

use proptest::prelude::*;

/// Generates the lengths of an object and of its packets.
pub(crate) fn any_object() -> impl Strategy<Value = (u64, u32)> {
    (0_u64..3_000_000, 100_u32..9_000)
}
