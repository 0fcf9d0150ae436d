//! `lighthaul wrap`: runs a program whose connections go through a gateway.
//!
//! - [`run`]: starts the program; `program`: finds it and checks that it can be captured; `elf`: reads its file
//! - `failure`: failure to start it

pub(crate) mod run;

mod elf;
mod failure;
mod program;
