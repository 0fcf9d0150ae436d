//! Receiving side of a copy.
//!
//! - [`receiver`]: threads and messages; `transfer`: shared state; `settings`: settings; `equip`:
//!   setup of the threads; [`landing`]: target folder
//! - `judge`: comparison of entries with the target; `decide`: action for an entry; `want`: ranges
//!   of a file to request
//! - `ledger`: table of entries
//! - `sieve`: names at the source; `prune`: deletion of what the source does not have
//! - `links`: hard links; `room`: free space
//! - `lane`: objects of one lane; `sink`: their bytes in files
//! - `dress`: metadata; `permit`: metadata that a peer may set
//! - `job`: queue of `publish`, which compares and renames files; `unsynced`: files to sync;
//!   `device`: reading back
//! - [`journal`]: ranges of partial files; `held`: comparison of these
//! - `temp_files`: temporary files; `cradle`: their place; `claim`: lock files of writers
//! - `hashing`: hashes for the user
pub mod journal;
pub mod landing;
pub mod receiver;

mod claim;
mod cradle;
mod decide;
mod device;
mod dress;
mod equip;
mod hashing;
mod held;
mod job;
mod judge;
mod lane;
mod ledger;
mod links;
mod permit;
mod prune;
mod publish;
mod room;
mod settings;
mod sieve;
mod sink;
mod temp_files;
mod transfer;
mod unsynced;
mod want;

#[cfg(test)]
mod tests;

pub use permit::Permit;
pub use receiver::receive;
pub use settings::Settings;
