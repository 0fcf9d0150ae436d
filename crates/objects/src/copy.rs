//! Copies with object stores: the request, and its way to a runtime.

use lighthaul_copy::watch::{Summary, Watcher};
use lighthaul_files::options::Options;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

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
}

/// Copies, and calls `watcher` for each event. Entries that cannot be copied are failures in the summary.
pub fn copy(copy: ObjectCopy<'_>, watcher: Watcher<'_>) -> Result<Summary, Error> {
    #[cfg(feature = "stores")]
    return crate::run::run(copy, watcher);
    #[cfg(not(feature = "stores"))]
    {
        let _ = watcher;
        let mut places = copy.sources.iter().chain([copy.target]);
        let place = places.find(|place| matches!(place, Place::Object { .. }));
        let name = place.map_or_else(String::new, |place| place.with_host(""));
        Err(crate::fault::Fault::NotBuilt(name).into())
    }
}
