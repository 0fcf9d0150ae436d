//! `lighthaul manifest` and `lighthaul verify`: hashes of the files of a folder, as lists and compared.
//!
//! - [`make`], [`check`]: writing a list, comparing files with one
//! - [`mod@line`]: a line of a list; `walk`: the files of a folder; `workers`: threads; `show`: progress and differences

pub(crate) mod check;
pub(crate) mod line;
pub(crate) mod make;

mod show;
mod walk;
mod workers;
