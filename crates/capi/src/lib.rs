//! Floor 11: the library for programs in C and C++, a thin layer over the crate `lighthaul`.
//!
//! ```text
//! lighthaul.hpp: classes of C++ -> lighthaul.h: functions -> interface -> crate lighthaul
//! ```
//!
//! - [`interface`]: functions and structures of `lighthaul.h`, for clients, copies, files and streams
//! - [`handles`]: objects that the program holds; [`fault`]: faults of a call
//! - [`call`]: one call: panics, the signal SIGPIPE, and the description of a failure; [`callback`]: functions of the
//!   program that run
//! - [`memory`]: pointers of the program, as references and strings
//!
//! Arguments of a program never make the library panic. Invalid pointers are undefined behavior. `cbindgen` generates
//! `include/lighthaul.h` from `interface`; the tests compare both, and the list of symbols in `abi.txt`.

pub mod call;
pub mod callback;
pub mod fault;
pub mod handles;
pub mod interface;
pub mod memory;
