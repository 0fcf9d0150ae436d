//! The sending side of a transfer.
//!
//! - [`sender`]: its threads, and what it hears; [`walk`]: from paths to entries
//! - [`listed`]: from a list to entries; `inspect`: what only some entries have
//! - `scan`: the list told, and wishes heard; `queue`: from wishes to objects
//! - `held`: digests of ranges that the receiver holds from an earlier run
//! - `lane`: objects sent one after the other; `source`: their bytes
pub mod listed;
pub mod sender;
pub mod walk;

mod held;
mod inspect;
mod lane;
mod queue;
mod scan;
mod source;

pub use listed::Finds;
pub use sender::{Settings, send};
