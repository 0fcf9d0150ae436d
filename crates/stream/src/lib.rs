//! Floor 4: streams. Data from a pipe on one side are written to a pipe on the other side while
//! they are produced.
//!
//! *Messages* are small and must arrive soon: each is one datagram, and lost ones are restored by
//! forward error correction (`fec`). *Objects* are larger and arrive at a known rate. All objects
//! of the tolerated delay form one payload, which RBUDP sends. Equations 8 to 11 of the RBUDP paper
//! plan the payloads.
//!
//! - [`message`]: request and messages of a stream; [`frames`]: framing of messages and objects
//! - [`end`]: the pipe or file of one side; [`pump`]: the threads that read and write it, with
//!   `frame_queue` between them and the network
//! - [`coded`]: symbols of a message stream; [`meter`]: latencies
//! - [`messages`], [`objects`]: the two kinds of streams; [`run`]: begin and end of a stream;
//!   `ready`: its state in between

pub mod coded;
pub mod end;
mod error;
pub mod frames;
pub mod message;
pub mod messages;
pub mod meter;
pub mod objects;
pub mod pump;
pub mod run;

mod frame_queue;
mod ready;
