//! SABUL (section 3 of its paper): datagrams at a rate that loss governs, feedback on a stream.
//!
//! - [`config`]: what both sides agree on; [`wire`]: what crosses
//! - [`sender`], [`receiver`]: the two machines, a loss list on both
//! - [`rate`]: how fast to send, as a value: the paper's rules, or quicker and fairer ones; [`flow`]: how
//!   much may be on its way
//!
//! What the paper leaves open is done as its intent demands. Packets are numbered from the object's first
//! to its last, so the 32 bits of a number never wrap, and machines count in 64. A loss that no later packet
//! shows is found because the sender says on the stream how far it has come, at the end and whenever it has
//! heard nothing for long. Losses that arrive together leave in one NAK and count as so many. The rate
//! does not rise while the largest flow window, and not the rate, is what holds the sender.
pub mod config;
pub mod flow;
pub mod rate;
pub mod receiver;
pub mod sender;
mod swift;
pub mod wire;

pub use config::{Config, Memory, Misuse, PACKETS_MAX};
pub use rate::Mode;
pub use receiver::{Receiver, ReceiverEvent};
pub use sender::{PeerMisbehaved, Sender, SenderEvent};
