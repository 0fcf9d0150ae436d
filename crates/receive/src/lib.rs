//! Floor 6: receiving side of a copy.
//!
//! - [`receiver`]: threads, messages, `queues`; `transfer`, `settings`: state; `path_setup`, `setup`: lanes, workers
//! - [`target_folder`]: path of entries; `entry_checker`, `decide`, `want`, `immediate`, `contents`: entries; `delta`, `basis`: deltas
//! - `entry_table`, `pending_file`: listed entries; `settled_entries`: entries for removal at the source; `claims`: hard links
//! - `skipped_entries`, `link_dest`, `references`, `itemize`: options of rsync; `folder_end`, `prune`, `deletions`: ends of directories
//! - `lane`: objects of one lane; `sink`: their bytes in files; `metadata`: owners, attributes and times
//! - `job`: queue of `publish`, which renames files, `unsynced`; `object_digests`, `checks`, `device`, `hashing`: digests
//! - [`journal`], `held`: ranges of partial files; `stage`, `staged_files`, `staged_records`: parts of a striped copy
//! - `modification_check`: changes by others; `temp_files`: temporary files; `report`; `object_entries`: copies into stores
pub mod journal;
pub mod receiver;
pub mod target_folder;

mod basis;
mod checks;
mod claims;
mod contents;
mod decide;
mod deletions;
mod delta;
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
mod link_dest;
mod metadata;
mod modification_check;
mod object_digests;
mod object_entries;
mod path_setup;
mod pending_file;
mod prune;
mod publish;
mod queues;
mod references;
mod report;
mod settings;
mod settled_entries;
mod setup;
mod sink;
mod skipped_entries;
mod stage;
mod staged_files;
mod staged_records;
mod temp_files;
#[cfg(test)]
mod tests;
mod transfer;
mod unsynced;
mod want;

pub use receiver::receive;
pub use settings::Settings;
