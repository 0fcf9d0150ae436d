//! Functions and structures of `lighthaul.h`. `cbindgen` reads these files in this order.
//!
//! - [`code`]: results of functions; [`failure`]: description of a failure
//! - [`client`]: clients, which own keys and know hosts; [`copy`]: copies
//! - [`files`]: files of another host, with readers and writers; [`stream`]: streams of messages
//! - [`packing`]: typed messages; [`reservation`]: capacity that a scheduler reserves

pub mod client;
pub mod code;
pub mod copy;
pub mod failure;
pub mod files;
pub mod packing;
pub mod reservation;
pub mod stream;
