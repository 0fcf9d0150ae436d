//! How the kernel is told what to do with packets that are not ours alone, and what goes wrong with that.
//!
//! - `tools`: the programs that tell it; `claim`: who may; [`error`]: what goes wrong

pub mod error;

pub(crate) mod namespace_lock;
pub(crate) mod tools;
