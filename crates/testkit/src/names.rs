//! Names in a directory.

use std::io;
use std::path::Path;

/// Returns the names in `folder` in order, with hidden names.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    let items = folder.read_dir()?;
    let name =
        |item: io::Result<std::fs::DirEntry>| Ok(item?.file_name().to_string_lossy().into_owned());
    let mut names = items.map(name).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}
