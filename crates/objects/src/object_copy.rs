//! Request for a copy with object stores.

use lighthaul_files::options::Options;
use lighthaul_remote::place::Place;

/// Copy with an object store on at least one side.
#[derive(Clone, Copy, Debug)]
pub struct ObjectCopy<'a> {
    /// Sources: all in object stores, or all on this host.
    pub sources: &'a [Place],
    /// Target.
    pub target: &'a Place,
    /// Makes the target the new name of the only source.
    pub exact: bool,
    /// Options. Those that have no meaning for objects are refused.
    pub options: &'a Options,
    /// Number of retries of each request.
    pub retries: u32,
    /// Follows redirects of web servers.
    pub redirects: bool,
}
