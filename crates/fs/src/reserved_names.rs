//! Names in a directory that stand for something else, so that no file may have them.
//!
//! The directory is known by its inode. So a path that reaches it by `..`, by a symbolic link or by another mount does not
//! avoid the check.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{fstat, stat};

/// Names in one directory that no file may have. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ReservedNames(Option<Arc<Names>>);

#[derive(Debug)]
struct Names {
    /// Device and inode of the directory.
    folder: (u64, u64),
    reserved: BTreeSet<OsString>,
    /// Reason for users.
    why: &'static str,
}

impl ReservedNames {
    /// Reserves nothing.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Reserves names in the directory `folder`. `why` is the reason that users get.
    pub fn of(
        folder: &Path,
        names: impl IntoIterator<Item = OsString>,
        why: &'static str,
    ) -> io::Result<Self> {
        let found = stat(folder)?;
        Ok(Self(Some(Arc::new(Names {
            folder: (found.st_dev, found.st_ino),
            reserved: names.into_iter().collect(),
            why,
        }))))
    }

    /// Fails if `name` is reserved in the open directory `folder`.
    pub(crate) fn check(&self, folder: impl AsFd, name: &OsStr) -> io::Result<()> {
        let Some(names) = &self.0 else {
            return Ok(());
        };
        if !names.reserved.contains(name) {
            return Ok(());
        }
        let found = fstat(folder)?;
        if (found.st_dev, found.st_ino) == names.folder {
            return Err(io::Error::other(names.why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::file_access::FileAccess;

    #[test]
    fn no_spelling_of_a_path_creates_a_reserved_name() {
        let top = std::env::temp_dir().join(format!("lighthaul-reserved-{}", std::process::id()));
        std::fs::create_dir_all(top.join("sub/deep")).unwrap();
        std::fs::write(top.join("file"), "f").unwrap();
        symlink(".", top.join("here")).unwrap();
        symlink("..", top.join("sub/up")).unwrap();
        let reserved = ReservedNames::of(&top, ["store".into()], "it is a store").unwrap();
        let access = FileAccess::beneath(&top).unwrap().reserving(reserved);
        for path in [
            "store",
            "/store",
            "store/",
            "./store",
            "sub/../store",
            "here/store",
            "sub/up/store",
            "sub/deep/../../here/store/.",
        ] {
            let path = Path::new(path);
            let made = access.make_folder(path).unwrap_err();
            assert_eq!(made.to_string(), "it is a store", "{path:?}");
            assert!(access.parent(path).is_err(), "{path:?}");
            assert!(access.open_stream_target(path).is_err(), "{path:?}");
        }
        let mut roots = vec![access.root(Path::new(".")).unwrap()];
        roots.push(access.root(Path::new("here")).unwrap());
        roots.push(
            access
                .within(Path::new("sub/.."))
                .unwrap()
                .root(Path::new(""))
                .unwrap(),
        );
        roots.push(roots[0].another().unwrap());
        for mut root in roots {
            for path in ["store", "sub/../store", "here/store"].map(Path::new) {
                assert!(root.make_folder(path).is_err(), "{path:?}");
                assert!(root.create(path).is_err(), "{path:?}");
                assert!(root.lock(path).is_err(), "{path:?}");
                assert!(root.make_link(path, OsStr::new("sub")).is_err(), "{path:?}");
                assert!(root.rename(Path::new("file"), path).is_err(), "{path:?}");
            }
        }
        assert!(!top.join("store").exists());
        // the name is free in other directories
        assert!(access.make_folder(Path::new("sub/store")).unwrap());
        std::fs::remove_dir_all(&top).unwrap();
    }
}
