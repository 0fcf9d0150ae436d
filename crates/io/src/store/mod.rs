//! Bytes of the object that a machine moves.
//!
//! - [`access`]: access to them, [`Store`]; [`memory`]: an object in memory
//! - [`read_ahead`]: the sender's store; [`blocks`]: the receiver's; [`block`]: aligned memory
pub mod access;
pub mod block;
pub mod blocks;
pub mod memory;
pub mod read_ahead;
pub mod waits;

pub use access::Store;
