//! The books: the calendar, what was promised to whom, and who may change it.
//!
//! - [`handle`]: the books as others hold them: one writes at a time, and what is answered is in the store
//! - [`config`]: rules and bounds; [`who`]: who asks, and as what
//! - `ledger`: the books in memory; `record`: one reservation in them; `ask`: how requests are read
//! - `reserve`, `life`, `resize`, `outage`, `tick`: what changes them; `view`: what is read of them
//! - [`policy`]: what an identity may book; `rivals`: reservations of the same packets, or of one owner; `rates`: the rates of
//!   one owner together; `moves`: what reservations may be moved to
//! - `clerk`: how ledger and store are kept in step; `memory`: how one that went backwards is seen; `follow`: how they come from a store; `quota`: what owners have; `shares`: what is kept of each; `effort`: what a change costs

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
