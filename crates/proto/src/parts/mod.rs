//! What several machines share.
//!
//! - [`pacer`]: keeps the gap between datagrams
//! - [`tally`], [`loss_list`]: which packets have come; which are missing
pub mod loss_list;
pub mod pacer;
pub mod tally;

pub use loss_list::LossList;
pub use pacer::{Pacer, TRAIN_BYTES_MAX};
pub use tally::Tally;
