//! The interface for C: header, symbols and layouts are as accepted, and programs in C and C++ use it with a daemon.
//!
//! `include/lighthaul.h` and `abi.txt` are checked in. `LIGHTHAUL_ACCEPT=interface cargo test -p lighthaul-capi` writes
//! both again. A changed or removed line of `abi.txt` is an incompatible change: raise the number in `build.rs`, too.
#![expect(clippy::unwrap_used, reason = "a test")]

mod accepted;
#[expect(dead_code, reason = "programs in C have clients of their own")]
#[path = "../../../lighthaul/tests/copies/books.rs"]
mod books;
mod built;
mod programs;
#[path = "../../../lighthaul/examples/daemon/serve.rs"]
mod serve;
