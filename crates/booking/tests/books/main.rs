//! Tests of the books: rights, limits, persistence, and failures.
#![expect(clippy::unwrap_used, reason = "a test")]

mod freed_capacity;
mod guard_times;
mod instances;
mod lifecycle;
mod moves;
mod older_store;
mod queries;
mod rate_limits;
mod resizing;
mod retention;
mod shared_store;
mod validation;
mod world;
