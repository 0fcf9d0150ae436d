//! The receiving side of a transfer.
//!
//! - [`receiver`]: its threads, and what it hears; [`landing`]: where files go
//! - `judge`: looks at the list, and says what must be sent; `ledger`: what is on its way
//! - `sieve`: what the target has and the source does not
//! - `lane`: objects received one after the other; `sink`: their bytes written
//! - `publish`: what agrees gets its name; [`journal`]: what a later run can go on with; `names`: until then,
//!   and `claim`: whose they are
pub mod journal;
pub mod landing;
pub mod receiver;

mod claim;
mod judge;
mod lane;
mod ledger;
mod names;
mod publish;
mod sieve;
mod sink;

pub use receiver::{Settings, receive};
