//! Modes that forbid what a copy must do, and those that lend rights.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::far::Far;
use crate::scratch::{dress, tree};
use crate::stage::is_skipped;

/// Modes that keep an owner who is not root from reading or writing.
const CLOSED: [u32; 5] = [0o444, 0o400, 0o555, 0o200, 0];

#[test]
fn files_that_their_owner_may_not_open_arrive_as_any_others() {
    if is_skipped("files_that_their_owner_may_not_open_arrive_as_any_others") {
        return;
    }
    let far = Far::start("modes-closed", &[]);
    let source = far.target.join("tree");
    for (nth, size) in [9, 9 << 20].into_iter().enumerate() {
        fs::create_dir_all(source.join(nth.to_string())).unwrap();
        for mode in CLOSED {
            let path = source.join(format!("{nth}/{mode:o}"));
            fs::write(&path, vec![7; size]).unwrap();
            dress(&path, mode, 1_000_000_000);
        }
    }
    fs::hard_link(source.join("0/0"), source.join("0/other")).unwrap();
    let open = far.near.folder("open");
    for options in [
        &["-H"][..],
        &["-cH"],
        &["-a"],
        &["--inplace"],
        &["--partial-dir", ".p"],
        &["--no-sync"],
    ] {
        for times in 1..=2 {
            let back = open.join(options.concat());
            let paths = [&far.place("tree"), back.to_str().unwrap()];
            far.run_as_user(options, &paths, &open).assert_succeeded();
            assert_eq!(tree(&back), tree(&source), "{options:?}, {times}");
        }
        let alone = open.join(format!("{}-alone", options.concat()));
        let paths = [&far.place("tree/0/444"), alone.to_str().unwrap()];
        far.run_as_user(options, &paths, &open).assert_succeeded();
        assert_eq!(fs::metadata(&alone).unwrap().mode() & 0o7777, 0o444);
    }
    let back = open.join("--inplace");
    for (name, mode) in [("0/444", 0o444), ("1/0", 0)] {
        let path = source.join(name);
        fs::write(&path, vec![8; 9 << 20]).unwrap();
        dress(&path, mode, 1_000_000_001);
    }
    let paths = [&far.place("tree"), back.to_str().unwrap()];
    far.run_as_user(&["--inplace"], &paths, &open)
        .assert_succeeded();
    assert_eq!(tree(&back), tree(&source), "written again in their places");
}
