//! `lighthaul cp`.
//!
//! - [`run`]: the command, which gives a request to the library; `fault_messages`: its faults in the words of the
//!   command line
//! - `options`, `changes`: options as a request; `confirm`: the question before `--delete`; `failures`: the list of
//!   failures
//! - `printer`, `progress`, `bookings`: output while files move; `summary`: output at the end; `plan`: summary of a
//!   dry run

pub(crate) mod run;

mod bookings;
mod changes;
mod confirm;
mod failures;
mod fault_messages;
mod options;
mod plan;
mod printer;
mod progress;
mod summary;
