//! Tests of the books: rights, limits, persistence, and failures.
#![expect(clippy::unwrap_used, reason = "a test")]

mod asked;
mod backwards;
mod bounds;
mod follow;
mod freed;
mod kept;
mod life;
mod moved;
mod rate_limits;
mod resized;
mod shared_store;
mod world;
