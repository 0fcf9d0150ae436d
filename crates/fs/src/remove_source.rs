//! Removal of files and links that were copied.

use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, unlinkat};

use crate::file_access::FileAccess;
use crate::meta::Meta;

impl FileAccess {
    /// Removes the file or link at `path` if `is_same` accepts its present attributes. Returns
    /// false if it does not.
    pub fn remove_if(&self, path: &Path, is_same: impl FnOnce(&Meta) -> bool) -> io::Result<bool> {
        let Some((folder, name)) = self.parent(path)? else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let meta = if self.follows() {
            self.look_through(path)?
        } else {
            folder.look(name)?
        };
        let same = is_same(&meta);
        if same {
            unlinkat(&folder.fd, name, AtFlags::empty())?;
        }
        Ok(same)
    }
}
