//! Free space, compared with the size of wanted files before they are requested.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use lighthaul_fs::disk::Root;
use lighthaul_fs::space::Space;
use rustix::fs::FileType;

use crate::manifest::Entry;

/// File systems of the target, by device.
#[derive(Debug, Default)]
pub struct FreeSpace(BTreeMap<u64, Disk>);

/// Space on a file system.
#[derive(Debug)]
struct Disk {
    /// Free space before the copy.
    space: Space,
    wanted: u64,
    /// Bytes of files that are replaced.
    freed: u64,
    /// New files.
    files: u64,
}

impl FreeSpace {
    /// Adds the wanted file `entry`, whose partial file, if any, is at `left`. Returns the reason if it certainly does
    /// not fit.
    pub fn reserve(
        &mut self,
        root: &mut Root,
        entry: &Entry,
        left: &Path,
    ) -> io::Result<Option<String>> {
        let path = entry.path();
        let (access, device) = nearest(root, path)?;
        let there = match root.look(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            there => there?,
        };
        // a partial file of an earlier run has its space already
        let place = left;
        let left = match root.look(place) {
            // the directory for temporary files is created when it is needed
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            left => left?,
        };
        let need = entry
            .data_len()
            .saturating_sub(left.map_or(0, |left| left.allocated));
        let disk = match self.0.entry(device) {
            std::collections::btree_map::Entry::Occupied(disk) => disk.into_mut(),
            std::collections::btree_map::Entry::Vacant(vacant) => vacant.insert(Disk {
                space: root.space(access)?,
                wanted: 0,
                freed: 0,
                files: 0,
            }),
        };
        disk.wanted = disk.wanted.saturating_add(need);
        disk.files += u64::from(there.is_none());
        let replaced = there.filter(|there| {
            there.kind == FileType::RegularFile && there.names == 1 && place != path
        });
        disk.freed += replaced.map_or(0, |there| there.allocated);
        // the new file exists beside the old one until it is complete
        let checked = disk.space.check(need, 1);
        let sum = disk.wanted.saturating_sub(disk.freed);
        let checked = checked.and_then(|()| disk.space.check(sum, disk.files));
        Ok(checked.err().map(|why| why.to_string()))
    }
}

/// Returns the nearest existing ancestor of `path`, and its device. Directories below may not exist
/// yet.
fn nearest<'a>(root: &mut Root, path: &'a Path) -> io::Result<(&'a Path, u64)> {
    for place in path.ancestors() {
        match root.device(place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            device => return device.map(|device| (place, device)),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}
