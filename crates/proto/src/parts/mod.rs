//! What several machines share.
//!
//! - [`pacer`]: keeps the gap between datagrams; [`tally`]: which packets have come
pub mod pacer;
pub mod tally;

pub use pacer::{Pacer, TRAIN_BYTES_MAX};
pub use tally::Tally;
