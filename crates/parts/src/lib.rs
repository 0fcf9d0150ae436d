//! Building blocks that several protocol machines use (floor 1).
//!
//! - [`packet_layout`]: division of an object into packets; [`framing`]: the same with headers
//! - [`pacer`]: pacing of datagrams at a rate; [`profile`]: pacing along a TRC vector
//! - [`turns`]: the packet that each datagram in flight carries
//! - [`tally`], [`loss_list`]: sets of received packets, and of missing packets
//! - [`arrival_counts`]: counts of the datagrams that a receiver got
//! - [`receiver_pause`]: pause requests of a receiver whose host falls behind; [`host_rate`]: rate that the
//!   receiving host takes; [`disk_rate`]: rate that the disks of both hosts take; [`loss_rate`]: rate that follows the
//!   loss of each pass
//! - [`transfer_rate`]: rate of all lanes, after all of these; [`flow_meter`]: comparison of sent and arrived packets
//! - [`events`]: queue of events for the machine's owner
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arrival_counts;
pub mod disk_rate;
pub mod events;
pub mod flow_meter;
pub mod framing;
pub mod host_rate;
pub mod loss_list;
pub mod loss_rate;
pub mod pacer;
pub mod packet_layout;
pub mod profile;
pub mod receiver_pause;
pub mod tally;
pub mod transfer_rate;
pub mod turns;

pub use arrival_counts::ArrivalCounts;
pub use events::Events;
pub use framing::Framing;
pub use loss_list::LossList;
pub use pacer::{Pacer, TRAIN_BYTES_MAX};
pub use packet_layout::PacketLayout;
pub use profile::Profile;
pub use receiver_pause::ReceiverPause;
pub use tally::Tally;
pub use transfer_rate::TransferRate;
pub use turns::Turns;
