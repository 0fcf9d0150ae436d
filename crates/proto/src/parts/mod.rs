//! What several machines share.
//!
//! - [`cut`]: an object cut into packets
//! - [`pacer`]: keeps the gap between datagrams; [`profile`]: follows a TRC vector
//! - [`turns`]: which packet each datagram was
//! - [`tally`], [`loss_list`]: which packets have come; which are missing
//! - [`hold`]: whether a receiver's host is behind
//! - [`events`]: what an owner is to hear
pub mod cut;
pub mod events;
pub mod hold;
pub mod loss_list;
pub mod pacer;
pub mod profile;
pub mod tally;
pub mod turns;

pub use cut::Cut;
pub use events::Events;
pub use hold::Hold;
pub use loss_list::LossList;
pub use pacer::{Pacer, TRAIN_BYTES_MAX};
pub use profile::Profile;
pub use tally::Tally;
pub use turns::Turns;
