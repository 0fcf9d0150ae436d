//! TCP in virtual time: the neighbors that a transfer meets on a shared path.
//!
//! A [`Sender`] sends packets without end to a [`Receiver`], which acknowledges every second packet.
//! The congestion control is Reno (RFC 5681), CUBIC (RFC 9438), or BBR, version 1, as in
//! Linux. Acknowledgments name
//! the packets that arrived, as SACK and time stamps do together. A loss is found after three later
//! packets (RFC 6675) or after a timeout (RFC 6298).
//!
//! - `sender`, `receiver`: the machines; `messages`: theirs; `flight`: packets in flight
//! - `control`: the congestion control; `reno`, `cubic`, `bbr`: its kinds; `sample`: their measurements

mod bbr;
mod control;
mod cubic;
mod flight;
mod messages;
mod receiver;
mod reno;
mod sample;
mod sender;

pub use messages::HEAD_LEN;
pub use receiver::Receiver;
pub use sender::{Algorithm, Config, Sender};
