//! Floor 4: trees of files, selection of entries, digests and hashes.
//!
//! - [`walk`]: entries below given paths; [`listed`]: entries of a list; [`inspect`]: attributes,
//!   hard links, holes
//! - [`filter`]: rules that select files; [`list`]: lists of paths; [`options`]: options of a copy
//! - [`manifest`]: list of entries; [`object`]: layout of parts of files in an object;
//!   [`hard_links`]: names of the same file; [`waiting_links`]: names that wait for the first
//! - [`names`]: names that a target rejects; [`permit`]: metadata that a peer may set
//! - [`temp_names`], [`temp_place`]: names and place of temporary files; [`writer_lock`]: lock files of writers;
//!   [`stage_log`]: ranges that parts of a striped copy have written
//! - [`digest`]: digests that verify a transfer; [`content_sum`]: checksums that find equal files; [`hash`]: hashes for
//!   users; [`sums`]: hashes of many files at a time
//! - [`delta`]: search of a changed file for what its old version has
//! - [`request`]: requests about files; [`execute`]: their execution; [`remote`]: execution for a
//!   peer
//! - [`free_space`]: comparison with the size of wanted files; [`source_store`]: contents of sources
//! - [`list_check`]: entries that a peer may list; [`folder_set`]: directories of a list
//! - [`special`]: devices, FIFOs and sockets; [`notes`]: messages that are shown once

pub mod backups;
pub mod content_sum;
pub mod delta;
pub mod digest;
pub mod error;
pub mod execute;
pub mod filter;
pub mod folder_set;
pub mod free_space;
pub mod glob;
pub mod hard_links;
pub mod hash;
pub mod inspect;
pub mod item;
pub mod list;
pub mod list_check;
pub mod listed;
pub mod manifest;
pub mod mode_changes;
pub mod names;
pub mod naming;
pub mod notes;
pub mod object;
pub mod options;
pub mod permit;
pub mod remote;
pub mod request;
pub mod skip;
pub mod source_store;
pub mod special;
pub mod stage_log;
pub mod sums;
pub mod temp_names;
pub mod temp_place;
pub mod waiting_links;
pub mod walk;
pub mod writer_lock;
