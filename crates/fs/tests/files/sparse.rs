//! Tests of sparse files: holes are found, kept and made, as the allocated blocks show.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use lighthaul_fs::disk::{InputFile, Root};
use lighthaul_fs::sparse::{DataRanges, FormerContent, punch, set_len, write};

use crate::scratch::Scratch;

const MIB: u64 = 1 << 20;

/// Returns the bytes that the file occupies on disk.
fn room(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Creates a file of 16 MiB with data from 1 to 2 MiB and from 8 to 8.5 MiB.
fn holey(scratch: &Scratch) -> File {
    let file = File::create(scratch.0.join("source")).unwrap();
    file.set_len(16 * MIB).unwrap();
    file.write_all_at(&vec![1; MIB as usize], MIB).unwrap();
    file.write_all_at(&vec![2; MIB as usize / 2], 8 * MIB)
        .unwrap();
    file
}

#[test]
fn data_ranges_exclude_holes() {
    for scratch in Scratch::everywhere("data") {
        let file = holey(&scratch);
        let half = 8 * MIB + MIB / 2;
        let all = DataRanges::of(&file, 16 * MIB).list(100).unwrap();
        assert_eq!(all, [MIB..2 * MIB, 8 * MIB..half], "{scratch:?}");
        let two = DataRanges::of(&file, 8 * MIB + 5).list(100).unwrap();
        assert_eq!(two, [MIB..2 * MIB, 8 * MIB..8 * MIB + 5]);
        // A limit of ranges joins some of them.
        let one = DataRanges::of(&file, 16 * MIB).list(1).unwrap();
        assert_eq!((one.len(), &one[0]), (1, &(MIB..16 * MIB)));
        file.set_len(MIB).unwrap();
        assert_eq!(DataRanges::of(&file, 16 * MIB).list(100).unwrap(), []);
        assert_eq!(DataRanges::of(&file, 0).list(100).unwrap(), []);
    }
}

#[test]
fn copy_keeps_the_holes() {
    for scratch in Scratch::everywhere("copy") {
        holey(&scratch);
        let source = InputFile::open(&scratch.0.join("source")).unwrap();
        let mut root = Root::open(&scratch.0).unwrap();
        let mut target = root.create(Path::new("target")).unwrap();
        set_len(&target, 16 * MIB).unwrap();
        // Unaligned pieces, as they may arrive.
        let mut piece = vec![0; 300_001];
        let mut at = 0;
        while at < 16 * MIB {
            let len = source.read_at(&mut piece, at).unwrap();
            write(&mut target, &piece[..len], at, FormerContent::Hole).unwrap();
            at += len as u64;
        }
        target.sync().unwrap();
        let (source, target) = (scratch.0.join("source"), scratch.0.join("target"));
        assert!(fs::read(&source).unwrap() == fs::read(&target).unwrap());
        // A zero page at either end of a piece may be written.
        assert!(room(&target) <= room(&source) + 64 * 8192, "{scratch:?}");
        assert!(room(&target) >= 3 * MIB / 2);
    }
}

#[test]
fn zeros_over_data_become_a_hole() {
    for scratch in Scratch::everywhere("punch") {
        let path = scratch.file("file", &vec![7; 4 * MIB as usize]);
        File::open(&path).unwrap().sync_all().unwrap();
        let full = room(&path);
        let mut root = Root::open(&scratch.0).unwrap();
        let mut file = root.reopen(Path::new("file")).unwrap();
        let zeros = vec![0; 2 * MIB as usize];
        write(&mut file, &zeros, MIB, FormerContent::Bytes).unwrap();
        punch(&mut file, 10..20).unwrap();
        punch(&mut file, 5..5).unwrap();
        file.sync().unwrap();
        let bytes = fs::read(&path).unwrap();
        let is_zero = |at: usize| (10..20).contains(&at) || (1 << 20..3 << 20).contains(&at);
        let expected = (0..4 << 20).map(|at| if is_zero(at) { 0 } else { 7 });
        assert!(bytes.into_iter().eq(expected));
        assert_eq!(room(&path), full - 2 * MIB, "{scratch:?}");
    }
}
