//! Floor 1: programs behind the library that captures their connections.
//!
//! - [`command`]: the command of a program; [`failure`]: failure to start it
//! - `program`: finding a program and checking that it can be captured; `elf`: reading its file
#![expect(clippy::disallowed_methods, reason = "commands read variables")]

pub mod command;
pub mod failure;

mod elf;
mod program;
