//! Message stream with forward error correction (section 3 of the Quanta paper). Small updates arrive within a round
//! trip despite losses, because repair symbols follow them unasked.
//!
//! Messages are source symbols (RFC 5052), each in a datagram of its own. A *block* is a row of them. It is closed
//! when it is full, or when its first message has waited for [`Config::linger`]. Then its repair symbols are sent, in
//! proportion to the number of messages: a lone message costs only one more datagram.
//!
//! A live stream has no end, so its object is a ring: the source symbols of `blocks` blocks, followed by their repair
//! symbols. A machine says which slot is written next ([`Sender::offer`]), sent or placed. A store of the driver
//! keeps the bytes. It computes repair symbols when they are sent, and restores missing messages when the receiver
//! asks for it ([`code`]). A slot is reused only after the owner has taken the events of all messages in it.
//!
//! No packet is requested or sent again. The only message on the stream is the end. A message has a deadline, counted
//! from its offer. Later it is dropped on either side, or delivered as late. A restored message takes its age from
//! the first message of its block, since its own head is lost. So it seems older by at most [`Config::linger`].
//!
//! Blocks are not interleaved: a loss burst longer than a block's repair symbols loses messages. A restored message
//! is delivered after messages that overtook it.
//!
//! - [`config`]: parameters on which both sides agree; [`wire`]: message formats
//! - [`sender`], [`receiver`]: the two state machines
//! - [`code`]: computation of repair symbols, and restoration of messages
pub mod code;
pub mod config;
pub mod receiver;
pub mod sender;
pub mod wire;

pub use code::{Code, Coder, ParseCodeError};
pub use config::{Config, ConfigError, Late};
pub use receiver::{Counts, DeliveredMessage, Receiver, ReceiverEvent, RepairJob, Symbols};
pub use sender::{Sender, SenderEvent};
