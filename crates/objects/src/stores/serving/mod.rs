//! Buckets that a daemon serves as directories.
//!
//! - [`bucket_target`]: a bucket and its directories; `bucket_upload`: upload of one object;
//!   `completion`: its end; `upload_target`: the object
//! - `open_parts`: parts whose bytes have come so far; `shared_parts`: the same for several lanes; `spool`: their bytes; `served_bucket`: limits of all uploads;
//!   `open_uploads`: those that are given up when the daemon ends; `client_errors`: errors without what only the daemon may know
//! - `earlier_upload`: upload that continues; `kept_uploads`: uploads that wait for that
//! - `served_sources`: what a copy reads; `object_walk`: its list of objects; `listed_walk`: those that a list names; `key_order`: their order; `known_objects`: their attributes; `object_reader`: their bytes;
//!   `object_sums`: their checksums; `client_paths`: keys of paths
//!
//! ```text
//! bytes in any order --> spool --> complete part: read back, compared with its checksum --> request to the store
//! ```
//!
//! The spool has only parts that are not complete. A part that is complete waits in memory until the store has it.

pub(crate) mod bucket_target;

mod bucket_upload;
pub(crate) mod client_errors;
mod client_paths;
mod completion;
mod earlier_upload;
mod kept_uploads;
mod key_order;
mod known_objects;
mod listed_walk;
mod object_reader;
mod object_sums;
mod object_walk;
mod open_parts;
mod open_uploads;
mod served_bucket;
mod served_sources;
mod shared_parts;
mod spool;
mod upload_target;
