//! Buckets that a daemon serves as directories.

use std::path::Path;
use std::sync::Arc;

use lighthaul_copy::object_target::ObjectTarget;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

/// Opens the bucket of `place`, or the prefix in it. `spool_folder` is a directory for bytes whose parts are not complete.
pub fn open(place: &Place, spool_folder: &Path) -> Result<Arc<dyn ObjectTarget>, Error> {
    #[cfg(feature = "stores")]
    {
        let opened =
            crate::stores::serving::bucket_target::BucketTarget::open(place, spool_folder)?;
        Ok(Arc::new(opened))
    }
    #[cfg(not(feature = "stores"))]
    {
        let _ = spool_folder;
        Err(crate::fault::Fault::NotBuilt(place.with_host("")).into())
    }
}
