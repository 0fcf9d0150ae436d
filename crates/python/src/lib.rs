//! Floor 11: the native module of the Python package `lighthaul`, a thin layer over the library.
//!
//! ```text
//! python/lighthaul: classes that programs use -> module: Client, Transfer, Files -> crate lighthaul
//! ```
//!
//! - [`client`]: copies and operations on files, with [`options`]; [`transfer`]: a running copy; [`files`]: remote
//!   files; [`stream`]: messages for other programs; [`packing`]: typed ones; [`end_sockets`]: ends, for event loops
//! - [`scheduler`]: reservations of a scheduler; [`queue`]: copies that it queues; [`events`]: of both, as they happen;
//!   [`rest`]: their requests
//! - [`calendar`]: capacity over time; [`simulator`]: simulations, and equations of papers
//! - [`errors`]: exceptions; [`notes`]: sentences for `logging`; [`work`]: waiting for work, and signals meanwhile
//! - [`module`]: the module itself
//!
//! Python holds its lock while it calls a function here, which gives it back before it waits. Notes and progress are
//! fetched. Only `cat_each` asks for the lock from another thread, to pass results to a function while its caller waits.
//! So the interpreter can end, or be busy, at any time.

mod calendar;
mod client;
mod end_sockets;
mod errors;
mod events;
mod files;
mod module;
mod notes;
mod options;
mod packing;
mod queue;
mod records;
mod rest;
mod scheduler;
mod simulator;
mod stream;
mod transfer;
mod work;
