//! Keys of paths that clients write.

use std::path::Path;

use lighthaul_session::error::Error;

use crate::stores::keys;
use crate::stores::object_names::unusable;

/// Returns the key of a path in a directory with this prefix, which clients see at `folder`.
pub(crate) fn key(prefix: &str, path: &Path, folder: &Path) -> Result<String, Error> {
    keys::key_of(prefix, path).map_err(|why| unusable(&folder.join(path).to_string_lossy(), why))
}
