//! Requests about objects: lists, attributes, removals.

use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

/// Executes `request` in the store of `place`, and passes each part of the reply to `take`. Objects that fail are parts of
/// the reply, not errors.
pub fn execute(
    place: &Place,
    request: &FileRequest,
    take: &mut dyn FnMut(FileReply) -> Result<(), Error>,
) -> Result<(), Error> {
    #[cfg(feature = "stores")]
    return crate::stores::requests::execute(place, request, take);
    #[cfg(not(feature = "stores"))]
    {
        let _ = (request, take);
        Err(crate::fault::Fault::NotBuilt(place.with_host("")).into())
    }
}
