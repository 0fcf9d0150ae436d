//! Copies with object stores, if the program has clients of them.

use lighthaul_copy::watch::{Summary, Watcher};
use lighthaul_files::list::PathList;
#[cfg(not(feature = "stores"))]
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

pub use crate::object_copy::ObjectCopy;

/// Copies, all paths or those in `list`, and calls `watcher` for each event. Entries that cannot be copied are failures in
/// the summary.
pub fn copy(
    copy: ObjectCopy<'_>,
    list: Option<PathList>,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    #[cfg(feature = "stores")]
    return crate::stores::run::run(copy, list, watcher);
    #[cfg(not(feature = "stores"))]
    {
        let _ = (list, watcher);
        let mut places = copy.sources.iter().chain([copy.target]);
        let place = places.find(|place| matches!(place, Place::Object { .. }));
        let name = place.map_or_else(String::new, |place| place.with_host(""));
        Err(crate::fault::Fault::NotBuilt(name).into())
    }
}
