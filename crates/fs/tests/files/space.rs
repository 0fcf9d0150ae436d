//! Tests of free space: a transfer that fits is accepted, and one that does not fit is refused.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use lighthaul_fs::disk::Root;
use lighthaul_fs::space::{Limit, Space};
use lighthaul_testkit::lacks_root;

const SMALL: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/small");

#[test]
fn free_space_of_a_small_file_system_is_exact() {
    if lacks_root("free_space_of_a_small_file_system_is_exact") {
        return;
    }
    fs::create_dir_all(SMALL).unwrap();
    let script = "mount -t tmpfs -o size=8m,nr_inodes=20 none \"$1\" && exec \"$2\" --exact --ignored \"$3\"";
    let test = "space::within_the_small_file_system";
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", SMALL])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "called by free_space_of_a_small_file_system_is_exact"]
fn within_the_small_file_system() {
    let small = Path::new(SMALL);
    let folder = File::open(small).unwrap();
    let space = Space::of(&folder).unwrap();
    assert_eq!(space.bytes(), 8 << 20);
    assert_eq!(space.check(8 << 20, 19), Ok(()));
    let error = space.check((8 << 20) + 1, 1).unwrap_err();
    assert_eq!(error.limit, Limit::FileSystem);
    assert!(error.to_string().contains("room for 8.00 MiB"), "{error}");
    assert!(
        space
            .check(1, 20)
            .unwrap_err()
            .to_string()
            .contains("room for 19")
    );

    let mut root = Root::open(small).unwrap();
    let mut reserved = root.create(Path::new("reserved")).unwrap();
    let full = reserved.allocate((8 << 20) + 1).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    reserved.write_at(&vec![1; 5 << 20], 0).unwrap();
    // tmpfs allocates memory when it is written.
    reserved.allocate(8 << 20).unwrap();
    assert_eq!(fs::metadata(small.join("reserved")).unwrap().len(), 8 << 20);
    assert_eq!(Space::of(&folder).unwrap().bytes(), 3 << 20);
    root.remove(Path::new("reserved")).unwrap();
    drop(reserved);

    let mut file = File::create(small.join("file")).unwrap();
    file.write_all(&vec![1; 5 << 20]).unwrap();
    let space = Space::of(&folder).unwrap();
    assert!(space.check(4 << 20, 1).is_err());
    file.write_all(&vec![1; space.bytes() as usize]).unwrap();
    let full = file.write_all(&[1; 4096]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    for number in 0..18 {
        File::create(small.join(number.to_string())).unwrap();
    }
    assert_eq!(Space::of(&folder).unwrap().check(0, 0), Ok(()));
    assert!(Space::of(&folder).unwrap().check(0, 1).is_err());
    assert!(File::create(small.join("one more")).is_err());
}
