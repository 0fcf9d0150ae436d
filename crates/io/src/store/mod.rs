//! Bytes of the object that a machine moves.
//!
//! - [`access`]: access to them, [`Store`]; [`memory`]: an object in memory
//! - [`blocks`]: the receiver's; [`block`]: aligned memory; [`waits`]: time that a store waits for another thread
pub mod access;
pub mod block;
pub mod blocks;
pub mod memory;
pub mod waits;

pub use access::Store;
