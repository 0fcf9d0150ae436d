//! Text files below the cache directory of this user.
//!
//! They only save time, so nothing is synced, and of two processes that write at the same time one loses its change.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use lighthaul_io::host::durable;

/// Maximum number of octets of a file that are read, above the length of all lines that are kept.
const FILE_MAX: u64 = 64 << 10;

/// Returns the text of a file, or an empty text if the file does not exist.
pub(crate) fn read(path: &Path) -> String {
    let octets = durable::read(path, FILE_MAX).ok().flatten();
    String::from_utf8_lossy(&octets.unwrap_or_default()).into_owned()
}

/// Replaces a file, and creates its directory if needed.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.{}", std::process::id()));
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = opened.open(&new)?;
    let written = file.write_all(text.as_bytes());
    let replaced = written.and_then(|()| fs::rename(&new, path));
    replaced.inspect_err(|_| {
        fs::remove_file(&new).ok();
    })
}
