//! Output that all commands share.
//!
//! - [`mod@print`]: lines on standard output and standard error; [`name`]: names of files in them

pub(crate) mod name;
pub(crate) mod print;
