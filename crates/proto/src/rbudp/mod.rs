//! Reliable Blast UDP (section 4 of the Quanta paper): blast, done signal, tally, and again what is
//! missing.
//!
//! - [`config`]: what both sides agree on; [`wire`]: what crosses
//! - [`sender`], [`receiver`]: the two machines
//! - [`feedback`]: RBUDP+, pauses while others have the receiver's processor; `room`: when nobody
//!   knows when that is
//! - [`model`]: how long it should take; [`plan`]: how a stream of objects is carried
pub mod config;
pub mod feedback;
pub mod model;
pub mod plan;
pub mod receiver;
mod room;
pub mod sender;
pub mod wire;

pub use config::{Config, Misuse, PACKETS_MAX};
pub use feedback::{FeedbackConfig, Granted};
pub use receiver::{Receiver, ReceiverEvent};
pub use room::Memory;
pub use sender::{PeerMisbehaved, Sender, SenderEvent};
