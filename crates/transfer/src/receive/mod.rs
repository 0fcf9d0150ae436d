//! The receiving side of a transfer.
//!
//! - [`receiver`]: its threads, and what it hears; `transfer`: what they share; `settings`: how; `equip`: what those work with; [`landing`]: where files go
//! - `judge`: looks at the list; `decide`: what is to be done with an entry; `want`: what must come of a file
//! - `ledger`: what is on its way
//! - `sieve`: what the target has and the source does not; `prune`: it goes
//! - `links`: names that wait for the first of the same file; `room`: whether all that fits
//! - `lane`: objects received one after the other; `sink`: their bytes written
//! - `dress`: what is kept besides bytes and names; `permit`: what of that a peer may set
//! - `job`: what is said of those to `publish`: what agrees gets its name, `unsynced`: once it is on disk, `device`: and was read back
//! - [`journal`]: hints for a later run, and `held`: which of those hold
//! - `temp_files`: files until then, where `cradle` says, and `claim`: whose they are
//! - `hashing`: what others want to know of files
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
