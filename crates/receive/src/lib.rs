//! Floor 6: receiving side of a copy.
//!
//! - [`receiver`]: threads and messages; `queues`: their queues; `transfer`: shared state; `settings`: settings
//! - `path_setup`: set-up of the path and its lanes; `setup`: creation of workers; [`target_folder`]: directory that the
//!   entries go to; `contents`: bytes of small files in the list
//! - `entry_checker`: comparison of entries with the target; `decide`: action for an entry; `want`:
//!   ranges of a file to request; `immediate`: entries without data
//! - `entry_table`: listed entries and their results; `placed`: entries that the sender may remove
//! - `left_out`, `link_dest`, `itemize`: options of rsync; `folder_end`: ends of directories
//! - `prune`, `deletions`: deletion of what the source does not have; `links`: hard links
//! - `lane`: objects of one lane; `sink`: their bytes in files; `metadata`: owners, attributes and times
//! - `job`: queue of `publish`, which compares and renames files; `object_digests`: objects and their digests
//! - `unsynced`: files to sync; `checks`, `device`: reading back; `written`: changes by other processes
//! - [`journal`]: ranges of partial files; `held`: comparison of these, and copies from a basis
//! - `basis`: old versions of files for deltas; `span_set`: ranges that a peer still owes
//! - `temp_files`: temporary files; `claims`: files with several names
//! - `hashing`: hashes for the user; `report`: reports about single entries
pub mod journal;
pub mod receiver;
pub mod target_folder;

mod basis;
mod checks;
mod claims;
mod contents;
mod decide;
mod deletions;
mod device;
mod entry_checker;
mod entry_table;
mod folder_end;
mod hashing;
mod held;
mod immediate;
mod itemize;
mod job;
mod lane;
mod left_out;
mod link_dest;
mod links;
mod metadata;
mod object_digests;
mod path_setup;
mod placed;
mod prune;
mod publish;
mod queues;
mod report;
mod settings;
mod setup;
mod sink;
mod span_set;
mod temp_files;
mod transfer;
mod unsynced;
mod want;
mod written;

#[cfg(test)]
mod tests;

pub use receiver::receive;
pub use settings::Settings;
