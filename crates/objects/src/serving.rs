//! Buckets that a daemon serves as directories.

use std::sync::Arc;

use lighthaul_copy::object_target::ObjectTarget;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::spool_space::SpoolPlace;

/// Opens the bucket of `place`, or the prefix in it.
pub fn open(place: &Place, spool: &SpoolPlace) -> Result<Arc<dyn ObjectTarget>, Error> {
    #[cfg(feature = "stores")]
    {
        let opened = crate::stores::serving::bucket_target::BucketTarget::open(place, spool)?;
        Ok(Arc::new(opened))
    }
    #[cfg(not(feature = "stores"))]
    {
        let _ = spool;
        Err(crate::fault::Fault::NotBuilt(place.with_host("")).into())
    }
}
