//! Floor 9: object stores as places of copies: S3, Google Cloud Storage, Azure Blob Storage, and files of web servers.
//!
//! - [`mod@copy`]: a copy with an object store; [`files`]: lists, attributes and removals; [`fault`]: faults
//! - `run`: the runtime of a copy; `job`, `report`: what its tasks share
//! - `upload`, `large_upload`, `upload_record`, `source_file`: from this host; `download`, `fetch`, `partial`, `publisher`, `landing`: to
//!   this host; `relay`: between stores; `deletion`: what the source does not have
//! - `decision`: what is copied; `keys`, `object_names`, `object_sources`: keys and paths; `bucket`: requests; `environment`: settings
//!
//! ```text
//! list of the target --.
//! walk, or list of the source --> decision --> requests in parallel, within the limit of memory --> name
//! ```

pub mod copy;
pub mod fault;
pub mod files;

#[cfg(feature = "stores")]
mod bucket;
#[cfg(feature = "stores")]
mod decision;
#[cfg(feature = "stores")]
mod deletion;
#[cfg(feature = "stores")]
mod download;
#[cfg(feature = "stores")]
mod environment;
#[cfg(feature = "stores")]
mod fetch;
#[cfg(feature = "stores")]
mod job;
#[cfg(feature = "stores")]
mod keys;
#[cfg(feature = "stores")]
mod landing;
#[cfg(feature = "stores")]
mod large_upload;
#[cfg(feature = "stores")]
mod object_names;
#[cfg(feature = "stores")]
mod object_sources;
#[cfg(feature = "stores")]
mod partial;
#[cfg(feature = "stores")]
mod publisher;
#[cfg(feature = "stores")]
mod relay;
#[cfg(feature = "stores")]
mod report;
#[cfg(feature = "stores")]
mod requests;
#[cfg(feature = "stores")]
mod run;
#[cfg(feature = "stores")]
mod source_file;
#[cfg(feature = "stores")]
mod upload;
#[cfg(feature = "stores")]
mod upload_record;
