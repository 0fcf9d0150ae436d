//! Reservations, and the calendar behind them.
//!
//! - [`handle`]: interface of the books for other modules, which serializes changes
//! - [`config`]: limits and rules; [`principal`]: identity of a client; [`policy`]: limits on the bookings of an
//!   identity; [`job_place`]: places of its jobs
//! - `ledger`: reservations in memory; `record`: one of them; `synced_ledger`: keeps ledger and store
//!   consistent
//! - `request`: conversion of requests for the calendar; `reserve`, `lifecycle`, `resize`, `outage`, `tick`:
//!   changes; `view`: queries
//! - `conflicts`: conflicts between reservations; `move_policy`: rules for moving them; `moved_work`: their quotas;
//!   `repack`: attempts to move them into freed capacity; `rate_sum`: sum of the rates of an owner
//! - `usage`: capacity that owners use; `uncommitted`: capacity that they held and did not commit; `memory_shares`: memory that they use; `step_counter`: work of a change
//! - `load`: loads documents from a store; `store_position`: detects a store that was restored from a
//!   backup; `event_index`: decides which events a store keeps

pub mod config;
mod conflicts;
mod event_index;
pub mod handle;
pub mod job_place;
mod ledger;
mod lifecycle;
mod load;
mod memory_shares;
mod move_policy;
mod moved_work;
mod outage;
pub mod policy;
pub mod principal;
mod rate_sum;
mod record;
mod repack;
mod request;
mod reserve;
mod resize;
mod step_counter;
mod store_position;
mod synced_ledger;
mod tick;
mod uncommitted;
mod usage;
mod view;

pub use config::Config;
pub use handle::{Books, EventPage, Status};
pub use job_place::{JobPlace, JobPlaceError};
pub use policy::{Policy, Quota};
pub use principal::Principal;
pub use view::Filter;
