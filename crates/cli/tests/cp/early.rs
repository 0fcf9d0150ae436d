//! Messages of a receiver before the path is measured.

use std::fs;
use std::path::Path;

use crate::far::Far;
use crate::running::{Running, becomes_true};
use crate::scratch::{dress, look, names, noise};
use crate::stage::is_skipped;

/// Returns true if a part of an incomplete file in `folder` is verified.
fn is_proved(folder: &Path) -> bool {
    let journal = |name: &String| name.ends_with(".journal");
    let len = |name| fs::metadata(folder.join(name)).map_or(0, |meta| meta.len());
    names(folder)
        .into_iter()
        .filter(journal)
        .map(len)
        .any(|len| len > 40)
}

#[test]
fn copy_waits_for_an_identical_running_copy() {
    let far = Far::start("early-same", &[]);
    let file = far.near.file("p20", 20 << 20);
    let (path, back) = (file.to_str().unwrap(), far.near.folder("back"));
    let (far_place, near_place) = (far.place("c"), back.join("c"));
    let copies = [
        ([path, &far_place], &far.target),
        ([&far_place, near_place.to_str().unwrap()], &back),
    ];
    for (paths, folder) in copies {
        let first = Running::start(far.copy(&["--rate", "40Mb/s"], &paths));
        becomes_true("something is proved", || is_proved(folder));
        first.signal("STOP");
        let mut second = Running::start(far.copy(&[], &paths));
        second.says("waiting up to");
        first.signal("CONT");
        second.finish().assert_succeeded();
        first.finish().assert_succeeded();
        assert!(look(&folder.join("c")) == look(&file));
        assert_eq!(names(folder), ["c"]);
    }
}

#[test]
fn delete_with_an_unreadable_source_reports_the_source_and_copies_other_files() {
    let name = "delete_with_an_unreadable_source_reports_the_source_and_copies_other_files";
    if is_skipped(name) {
        return;
    }
    let far = Far::start("early-closed", &[]);
    let source = far.near.folder("u");
    for inner in ["e", "e/no"] {
        fs::create_dir(source.join(inner)).unwrap();
        fs::write(source.join(inner).join("f"), noise(100, 1)).unwrap();
    }
    dress(&source.join("e/no"), 0, 1_000_000_000);
    fs::create_dir(far.target.join("u")).unwrap();
    fs::write(far.target.join("u/extra"), "x").unwrap();
    let from = format!("{}/", source.display());
    for options in [&["--delete", "-y", "-n"][..], &["--delete", "-y"]] {
        let paths = [from.as_str(), &far.place("u")];
        let outcome = far.run_as_user(options, &paths, &far.near.at("u"));
        assert_eq!(outcome.code, Some(23), "{outcome:?}");
        assert!(outcome.said("nothing is deleted, because some of the source could not be read"));
        assert!(outcome.said("e/no"), "{outcome:?}");
    }
    assert_eq!(names(&far.target.join("u")), ["e", "extra"]);
    assert_eq!(names(&far.target.join("u/e")), ["f"]);
}
