//! Other directories with files to link to (`--link-dest`).

use lighthaul_fs::disk::Root;

/// The directories, opened for the first entry.
#[derive(Debug, Default)]
pub(super) struct References(pub(super) Option<Vec<Root>>);
