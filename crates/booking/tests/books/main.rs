//! The books: who may have what, what is kept, and what is left when something fails.
#![expect(clippy::unwrap_used, reason = "a test")]

mod asked;
mod backwards;
mod bounds;
mod follow;
mod kept;
mod life;
mod moved;
mod rate_limits;
mod shelf;
mod world;
