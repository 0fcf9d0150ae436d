//! Copies with object stores, if the program has clients of them.

use lighthaul_copy::watch::{Summary, Watcher};
#[cfg(not(feature = "stores"))]
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

pub use crate::object_copy::ObjectCopy;

/// Copies, and calls `watcher` for each event. Entries that cannot be copied are failures in the summary.
pub fn copy(copy: ObjectCopy<'_>, watcher: Watcher<'_>) -> Result<Summary, Error> {
    #[cfg(feature = "stores")]
    return crate::stores::run::run(copy, watcher);
    #[cfg(not(feature = "stores"))]
    {
        let _ = watcher;
        let mut places = copy.sources.iter().chain([copy.target]);
        let place = places.find(|place| matches!(place, Place::Object { .. }));
        let name = place.map_or_else(String::new, |place| place.with_host(""));
        Err(crate::fault::Fault::NotBuilt(name).into())
    }
}
