//! `cargo xtask bench`: Lighthaul and its peers side by side on the same lab paths.
//!
//! - [`args`]: what can be asked for; [`case`]: paths, losses, data, and which go together
//! - [`lot`]: the files that are moved; [`plan`]: what one lab is to measure
//! - [`run`]: labs one after another; [`guard`]: what ends with them
//! - [`inside`]: what happens in one; [`side`]: one end of a trial
//! - [`peers`]: how each program is run; [`outcome`]: what a run gave, and the median of several
//! - [`table`]: what people read; [`targets`]: what must be reached; [`value`]: how sure it is

#![expect(clippy::disallowed_methods, reason = "a bench lives in the real world")]

mod args;
mod case;
mod guard;
mod inside;
mod lot;
mod outcome;
mod peers;
mod plan;
mod run;
mod side;
mod table;
mod targets;
mod value;

pub(crate) use run::main;
