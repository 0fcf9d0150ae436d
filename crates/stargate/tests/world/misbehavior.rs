//! Neighbors that misbehave on purpose.
