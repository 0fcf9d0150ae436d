//! The sending side of a transfer.
//!
//! - [`sender`]: its threads, and what it hears
//! - `scan`: the list told, and wishes heard; `queue`: from wishes to objects
//! - `held`: digests of ranges that the receiver holds from an earlier run
//! - `lane`: objects sent one after the other; `source`: their bytes
pub mod sender;

mod held;
mod lane;
mod queue;
mod scan;
mod source;

pub use sender::{Settings, send};
