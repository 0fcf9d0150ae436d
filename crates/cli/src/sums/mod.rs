//! `lighthaul manifest` and `lighthaul verify`: hashes of the files of a directory, as lists and compared.
//!
//! - [`make`], [`check`]: writing a list, comparing files with one
//! - `workers`: threads; `remote`: files of another host; `show`: progress and differences

pub(crate) mod check;
pub(crate) mod make;

mod remote;
mod show;
mod workers;
