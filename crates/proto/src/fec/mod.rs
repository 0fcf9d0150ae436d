//! A message stream with forward error correction (section 3 of the Quanta paper): small updates that arrive
//! within a round trip although some datagrams are lost, because repair symbols come behind them unasked.
//!
//! Messages are source symbols (RFC 5052), each alone in a datagram. A *block* is a row of them, closed when it
//! is full or when its first has waited for [`Config::linger`], whichever is first; then its repair symbols
//! leave, as many of them as the block is full, so that a lone message costs one more datagram and not all.
//!
//! A live stream has no end that an object could have, so the object is a ring: `blocks` blocks of slots for
//! source symbols, and behind the last of them the slots of their repair symbols. A machine says which slot is
//! written next ([`Sender::offer`]), sent or placed; a store of the world keeps the bytes, makes repair symbols
//! when they are gathered, and restores what is missing when the receiver says that it can ([`code`]).
//! A slot is used again only when the owner has heard of all that was in it.
//!
//! Nothing is ever asked for or sent again; the one message on the stream is the last word. A message has a
//! deadline, counted from when it was offered, and is dropped behind it, on either side, or told as late.
//! The age of a restored message is that of its block's first, which is at most [`Config::linger`] more than its
//! own: the head that said when it was offered is what was lost.
//!
//! Blocks do not interleave: a burst that takes more of a block than it has repair symbols is lost. A message
//! that is restored comes behind those that overtook it.
//!
//! - [`config`]: what both sides agree on; [`wire`]: what crosses
//! - [`sender`], [`receiver`]: the two machines
//! - [`feed`]: a sender that a simulation can run
//! - [`code`]: repair symbols made, and messages restored
pub mod code;
pub mod config;
pub mod feed;
pub mod receiver;
pub mod sender;
pub mod wire;

pub use code::{Code, Coder, NotACode};
pub use config::{Config, Late, Misuse};
pub use receiver::{Arrived, Counts, Puzzle, Receiver, ReceiverEvent, Symbols};
pub use sender::{Sender, SenderEvent};
