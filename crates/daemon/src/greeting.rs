//! The line in which a far side that ssh starts says where it listens.

/// The word that starts the line in which a far side says where it listens.
pub(crate) const GREETING: &str = "lighthaul-1";
