//! Reservations, and the calendar behind them.
//!
//! - [`handle`]: interface of the books for other modules, which serializes changes
//! - [`config`]: limits and rules; [`who`]: identity and role of a client; [`policy`]: what an
//!   identity may book
//! - `ledger`: reservations in memory; `record`: one of them; `clerk`: keeps ledger and store
//!   consistent
//! - `ask`: conversion of requests for the calendar; `reserve`, `life`, `resize`, `outage`, `tick`:
//!   changes; `view`: queries
//! - `rivals`: conflicts between reservations; `moves`: rules for moving them; `rates`: sum of the
//!   rates of an owner
//! - `quota`: capacity that owners use; `shares`: memory that they use; `effort`: work of a change
//! - `follow`: loads documents from a store; `memory`: detects a store that was restored from a
//!   backup

mod ask;
mod clerk;
pub mod config;
mod effort;
mod follow;
pub mod handle;
mod ledger;
mod life;
mod memory;
mod moves;
mod outage;
pub mod policy;
mod quota;
mod rates;
mod record;
mod reserve;
mod resize;
mod rivals;
mod shares;
mod tick;
mod view;
pub mod who;

pub use config::Config;
pub use handle::{Books, Happened, Standing};
pub use policy::{Policy, Quota};
pub use view::Filter;
pub use who::{Role, Who};
