//! Buckets and keys that places name.

use lighthaul_buckets::client::Patience;
use lighthaul_buckets::store::Bucket;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::fault::Fault;

/// Opens the bucket of a place, and returns the key in it. Sends nothing.
pub(crate) fn open(place: &Place, patience: Patience) -> Result<(Bucket, String), Error> {
    let Place::Object {
        scheme,
        bucket,
        path,
    } = place
    else {
        return Err(Fault::Request("this place is no object store".to_owned()).into());
    };
    let bucket = Bucket::open((scheme, bucket), patience)?;
    Ok((bucket, String::from_utf8_lossy(path).into_owned()))
}
