//! Elements of a cluster that share one channel (SLaBS, section III, last paragraph): each has its whole rate for a part of
//! the time, and a token among them says whose turn it is.
//!
//! What the paper leaves open is done so:
//!
//! - Every element says every few milliseconds that it lives, what it knows of the token, and whether it has something to
//!   send: its beat. The token goes around among those that do; if none does, it rests.
//! - The token goes to an element together with the number of its last beat, and is not taken if that beat was said too long ago. So
//!   a token that comes late is nobody's, though no two clocks agree.
//! - An element has the channel for a slot at most, and says so when it begins. It hands the token on a guard time before it ends, so
//!   that the channel is not idle meanwhile; for no longer two elements believe that it is theirs.
//! - If nothing is heard of the token for longer than it can be anybody's, the lowest element that lives proposes a new generation. All that
//!   live must agree, and so never take an older one; who knows better refuses. A holder that hears of a proposal
//!   gives its own token a higher generation, and the proposal is void.
//! - Of two tokens the one of the lower generation is dropped as soon as both are heard of. Two live on for as long as two parts of a
//!   cluster hear nothing of each other, and only then: who cannot be heard is taken for dead.
//!
//! - [`config`]: what all elements agree on; [`wire`]: what crosses between them
//! - [`element`]: one of them; [`peers`]: what it knows of the others
pub mod config;
pub mod element;
pub mod peers;
pub mod wire;

pub use config::Config;
pub use element::{Element, Slot};
pub use wire::{Generation, Mark, Word, Words};
