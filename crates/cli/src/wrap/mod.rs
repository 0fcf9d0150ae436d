//! `lighthaul wrap`: programs that know no proxy, started so that their connections go through a gateway.
//!
//! - [`args`]: the grammar; [`run`]: what it does
//! - [`program`]: which programs can be captured so; [`elf`]: what their files say

pub(crate) mod args;
pub(crate) mod run;

mod elf;
mod program;
