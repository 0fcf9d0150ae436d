//! Reliable Blast UDP (section 4 of the Quanta paper).
//!
//! ```text
//! sender    blast (UDP) --> done signal (TCP)                     blast of missing packets --> done signal ...
//! receiver                                    --> tally (TCP)                                              --> tally
//! ```
//!
//! - [`config`]: parameters on which both sides agree; [`wire`]: message formats
//! - [`sender`], [`receiver`]: the two state machines
//! - [`feedback`]: RBUDP+, pauses while other tasks run on the receiver's processor; [`pause`]: requests for them;
//!   `receive_window`: windows for absences that cannot be predicted
//! - [`model`]: analytical model of throughput; [`plan`]: parameters for a stream of objects
pub mod config;
pub mod feedback;
pub mod model;
pub mod pause;
pub mod plan;
mod receive_window;
pub mod receiver;
pub mod sender;
pub mod wire;

pub use config::{Config, ConfigError, Framing, PACKETS_MAX};
pub use feedback::GrantedWindow;
pub use pause::FeedbackConfig;
pub use receive_window::Memory;
pub use receiver::{Receiver, ReceiverEvent};
pub use sender::{PeerMisbehaved, Sender, SenderEvent};
