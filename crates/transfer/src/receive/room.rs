//! What is wanted, held against the room that there is, before any of it is asked for.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use lighthaul_io::fs::disk::Root;
use lighthaul_io::fs::space::Space;
use rustix::fs::FileType;

use crate::manifest::Entry;

/// The file systems that files go to, by their device.
#[derive(Debug, Default)]
pub(crate) struct Room(BTreeMap<u64, Disk>);

/// A file system.
#[derive(Debug)]
struct Disk {
    /// What it had room for before anything was wanted.
    space: Space,
    wanted: u64,
    /// What files take that are replaced.
    freed: u64,
    /// Files that are not there yet.
    files: u64,
}

impl Room {
    /// Takes note that the file `entry` is wanted; answers why it cannot fit, if that is certain.
    /// What there is of it already is at `left`.
    pub(crate) fn take(
        &mut self,
        root: &mut Root,
        entry: &Entry,
        left: &Path,
    ) -> io::Result<Option<String>> {
        let path = entry.path();
        let (ground, device) = nearest(root, path)?;
        let there = match root.look(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            there => there?,
        };
        // what an earlier run left of it has its room already
        let place = left;
        let left = match root.look(place) {
            // a folder for what is not whole is made when it is needed
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            left => left?,
        };
        let need = entry
            .data_len()
            .saturating_sub(left.map_or(0, |left| left.allocated));
        let disk = match self.0.entry(device) {
            std::collections::btree_map::Entry::Occupied(disk) => disk.into_mut(),
            std::collections::btree_map::Entry::Vacant(vacant) => vacant.insert(Disk {
                space: root.space(ground)?,
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
        // it is there beside what it replaces, until it is whole
        let checked = disk.space.check(need, 1);
        let sum = disk.wanted.saturating_sub(disk.freed);
        let checked = checked.and_then(|()| disk.space.check(sum, disk.files));
        Ok(checked.err().map(|why| why.to_string()))
    }
}

/// The path whose file system `path` will be on, and that file system: folders on the way there may not be made yet.
fn nearest<'a>(root: &mut Root, path: &'a Path) -> io::Result<(&'a Path, u64)> {
    for place in path.ancestors() {
        match root.device(place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            device => return device.map(|device| (place, device)),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}
