//! Copies and requests with the clients of stores, which are in the crate `buckets`.
//!
//! - [`run`]: the runtime of a copy; [`requests`]: lists, attributes, removals; `job`, `report`: the parts that tasks share
//! - `upload`, `upload_item`, `large_upload`, `source_file`: from this host; `part_upload`: uploads in parts
//! - `download`, `download_item`, `fetch`, `partial`, `parts_writer`, `publisher`, `landing`: to this host; `relay`, `relay_item`, `relay_object`: between stores
//! - [`serving`]: buckets that a daemon serves as directories
//! - `deletion`: entries that the source does not have; `decision`: choice of entries; `content_sums`: their checksums
//! - `keys`, `object_names`, `object_sources`, `listed_objects`: keys and paths; `places`: buckets of places
//!
//! ```text
//! list of the target --.
//! walk, or list of the source --> decision --> requests in parallel, within the limit of memory --> name
//! ```

pub(crate) mod requests;
pub(crate) mod run;
pub(crate) mod serving;

mod content_sums;
mod decision;
mod deletion;
mod download;
mod download_item;
mod fetch;
mod job;
mod keys;
mod landing;
mod large_upload;
mod listed_objects;
mod object_names;
mod object_sources;
mod part_upload;
mod partial;
mod parts_writer;
mod places;
mod publisher;
mod relay;
mod relay_item;
mod relay_object;
mod report;
mod source_file;
mod upload;
mod upload_item;
