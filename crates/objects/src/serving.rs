//! Buckets that a daemon serves as directories.

use std::sync::Arc;

use lighthaul_copy::object_target::ObjectTarget;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::spool_space::SpoolPlace;

/// Opens the bucket of `place`, or the prefix in it, which clients see as the directory `name`.
pub fn open(name: &str, place: &Place, spool: &SpoolPlace) -> Result<Arc<dyn ObjectTarget>, Error> {
    #[cfg(feature = "stores")]
    {
        let opened = crate::stores::serving::bucket_target::BucketTarget::open(name, place, spool)?;
        Ok(Arc::new(opened))
    }
    #[cfg(not(feature = "stores"))]
    {
        let _ = (name, spool);
        Err(crate::fault::Fault::NotBuilt(place.with_host("")).into())
    }
}
