//! Floor 6: sending side of a copy.
//!
//! - [`sender`]: threads and messages; `transfer`: shared state; `settings`: settings
//! - `scan`: sends the list of entries, and receives the requests; `queue`: requested ranges as
//!   objects; `item`: listed file
//! - `path_setup`: set-up of the path and its lanes; `rate_control`: their rate;
//!   `switch_control`: protocol of the next objects; `contents`: bytes of small files in the list
//! - `removals`: removal of files that are in place
//! - `delta`: search of changed files for what the receiver has; `deltas`: files that wait for it
//! - `held`: digests of ranges that the receiver holds from an earlier run; `holes`: check of holes
//! - `lane`: objects of one lane; `source`: their bytes from files; `read_ahead`: the next ones in memory; `circuit_lock`: turns of the lanes on a circuit
pub mod sender;

mod circuit_lock;
mod contents;
mod delta;
mod deltas;
mod held;
mod holes;
mod item;
mod lane;
mod path_setup;
mod queue;
mod rate_control;
mod read_ahead;
mod removals;
mod scan;
mod settings;
mod source;
mod switch_control;
mod transfer;

pub use sender::send;
pub use settings::Settings;
