//! Floor 5: files of another host, without copying them.
//!
//! A client reads ranges of remote files, writes new files and appends, and renames, copies, removes and hashes files
//! there. All requests of a session are pipelined: a thousand ranges cost one round trip and the time on the wire.
//!
//! ```text
//! programs -> client -- stream 3 of each connection: requests --> server -> files below the root
//!                  <-------------- data, answers in any order --
//! ```
//!
//! - [`message`]: requests and answers; [`failure`]: failed requests with their kind
//! - [`server`]: the side with the files; [`client`]: the side of the programs; [`span`]: ranges as users write them

pub mod client;
pub mod failure;
pub mod message;
pub mod server;
pub mod span;
