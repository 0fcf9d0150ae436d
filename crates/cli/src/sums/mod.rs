//! `lighthaul manifest` and `lighthaul verify`: hashes of the files of a directory, as lists and compared.
//!
//! - [`make`], [`check`]: writing a list, comparing files with one
//! - `workers`: threads; `remote`: files of another host; `show`: progress and differences; `hash_kind`: the hash of an
//!   option

pub(crate) mod check;
pub(crate) mod make;

mod hash_kind;
mod remote;
mod show;
mod workers;
