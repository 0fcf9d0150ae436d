//! The sending side of a transfer.
//!
//! - [`sender`]: its threads, and what it hears; `transfer`: what they share; `settings`: how
//! - `scan`: the list told, and wishes heard; `queue`: from wishes to objects
//! - `held`: digests of ranges that the receiver holds from an earlier run
//! - `lane`: objects sent one after the other; `source`: their bytes
pub mod sender;

mod held;
mod lane;
mod queue;
mod scan;
mod settings;
mod source;
mod transfer;

pub use sender::send;
pub use settings::Settings;
