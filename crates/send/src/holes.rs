//! Check of the holes that the file system of the source reports.
//!
//! Some file systems have reported new data as holes. A hole is not sent, so no digest covers it.

use std::io;
use std::path::Path;

use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_files::manifest::Entry;
use lighthaul_fs::device::DeviceFile;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::Error;

/// Bytes that are read between two checks of the other threads.
const STEP: u64 = 64 << 20;

/// Reads the holes of `entry`, which is at `place`. A file with other bytes than zeros in a hole
/// becomes a file without holes, so that all of it is sent. Fails only if the copy has failed.
pub(super) fn check(
    (access, threads): (&FileAccess, &ThreadGroup),
    entry: &mut Entry,
    (place, listed): (&Path, Option<&Meta>),
) -> Result<(), Error> {
    let Some(data) = &entry.data else {
        return Ok(());
    };
    let _step = threads.work.begin();
    let starts = data.iter().map(|(from, _)| *from).chain([entry.size()]);
    let ends = [0].into_iter().chain(data.iter().map(|(_, till)| *till));
    let holes = ends.zip(starts);
    let steps = holes.flat_map(|(from, till)| {
        let begins = (from..till).step_by(STEP as usize);
        begins.map(move |at| (at, till.min(at + STEP)))
    });
    let open = || -> io::Result<_> {
        let file = access.file(place)?;
        let device = DeviceFile::again(&file)?;
        Ok((file, device))
    };
    // a file that cannot be read fails when it is sent
    let Ok((file, mut device)) = open() else {
        entry.data = None;
        return Ok(());
    };
    for (from, till) in steps {
        threads.check()?;
        if !device.is_zero(from..till).unwrap_or(false) {
            entry.data = None;
            return Ok(());
        }
    }
    let unchanged = file.version().ok() == listed.map(Meta::version);
    if !unchanged {
        entry.data = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use lighthaul_files::manifest::EntryKind;
    use lighthaul_files::object::Span;
    use lighthaul_files::options::{Detail, Options};

    use super::*;

    #[test]
    fn holes_are_read_before_a_source_is_removed() {
        let plain = Options::default();
        assert!(!plain.reads_holes());
        let moves = Options {
            remove_source: true,
            ..plain
        };
        assert!(moves.reads_holes());
        let plan = Options {
            dry_run: Some(Detail::All),
            ..moves
        };
        assert!(!plan.reads_holes());
    }

    /// The data ranges are those that a file system could report.
    #[test]
    fn file_with_bytes_in_a_reported_hole_is_sent_as_a_whole() {
        let path = std::env::temp_dir().join(format!("holes-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        file.set_len(200 << 20).unwrap();
        file.write_all_at(b"x", 100 << 20).unwrap();
        let access = FileAccess::anywhere();
        let (folder, name) = access.parent(&path).unwrap().unwrap();
        let listed = folder.look(name).unwrap();
        let end = (100 << 20) + 1;
        let cases: [(Vec<Span>, bool); 5] = [
            (vec![(100 << 20, end)], true),
            (vec![(0, 4096), (100 << 20, end)], true),
            (vec![], false),
            (vec![(0, 100 << 20)], false),
            (vec![(end, 200 << 20)], false),
        ];
        for (data, is_right) in cases {
            let entry = || Entry {
                kind: EntryKind::File(200 << 20),
                data: Some(data.clone()),
                ..Entry::bare(b"a".to_vec())
            };
            let threads = ThreadGroup::default();
            let mut checked = entry();
            let all = (&access, &threads);
            check(all, &mut checked, (&path, Some(&listed))).unwrap();
            assert_eq!(checked.data, is_right.then_some(data.clone()));
            // a file that has changed since it was listed
            let mut changed = entry();
            let other = Meta {
                changed: listed.changed - 1,
                ..listed
            };
            check(all, &mut changed, (&path, Some(&other))).unwrap();
            assert_eq!(changed.data, None);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
