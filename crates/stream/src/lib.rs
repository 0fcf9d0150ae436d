//! Floor 4: streams. What comes out of a pipe on one side goes into one on the other while it is made.
//!
//! *Messages* are small and want to be there soon: each crosses in a datagram, and lost ones are restored
//! (`fec`). *Objects* are larger and come at a known rate: as many as come in the delay that is tolerated cross as one payload
//! by RBUDP, planned after equations 8 to 11 of the paper.
//!
//! - [`message`]: what is wanted, and what the two sides say; [`frames`]: how a row of octets holds messages and objects
//! - [`end`]: the pipe or file at its far end; [`pump`]: the threads that read and write, with
//!   `frame_queue` between them and the wire
//! - [`coded`]: the ring that a message stream's bytes lie in; [`meter`]: what came of it
//! - [`messages`], [`objects`]: the two kinds; [`run`]: how a stream begins and ends, and `ready`: what both sides know in between

pub mod coded;
pub mod end;
pub mod frames;
pub mod message;
pub mod messages;
pub mod meter;
pub mod objects;
pub mod pump;
pub mod run;

mod frame_queue;
mod ready;
