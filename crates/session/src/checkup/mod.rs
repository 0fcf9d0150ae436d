//! What stands between two hosts that can already talk: clocks, datagrams, packets, buffers.
//!
//! - [`message`]: what the two sides say; [`ask`]: the side that wants to know; [`answer`]: the other
//! - `back`: whether datagrams pass from there, where none gets there

pub mod answer;
pub mod ask;
pub mod message;

mod back;
