//! Floor 8: `cargo xtask bench`, a comparison of Lighthaul with its peers on equal lab paths.
//!
//! - `args`: command line; `case`: paths, losses and data; `plan`: measurements in one lab
//! - `run`: labs, one after another; `inside`: measurements in a lab; `side`: one side of a
//!   trial
//! - `folders`: files to transfer; `guard`: cleanup; `peers`: programs
//! - `outcome`: results and medians; `value`: medians with their spread; `table`: tables;
//!   `targets`: goals; `figure`: goodput against loss
//! - `grid`: `auto` beside each protocol over a grid of paths

#![expect(
    clippy::disallowed_methods,
    reason = "a bench measures the real system"
)]

mod args;
mod case;
mod figure;
mod folders;
mod grid;
mod guard;
mod inside;
mod outcome;
mod peers;
mod plan;
mod run;
mod side;
mod table;
mod targets;
mod value;

pub use run::main;
