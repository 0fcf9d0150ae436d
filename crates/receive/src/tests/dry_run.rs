//! Tests of dry runs of the receiver, on a list of entries.
//!
//! A dry run must report each entry once, with the action that a copy would take and its reason. It
//! must change nothing at the target, and must request no data. It fails if the copy would not fit.

use std::fs;
use std::os::unix::fs::symlink;

use lighthaul_files::content_sum::ContentSum;
use lighthaul_files::filter::{FilterOption, Rules};
use lighthaul_files::manifest::{Entry, EntryKind, Linked};
use lighthaul_files::options::{Action, Detail, Options};
use lighthaul_fs::metadata::Keep;

use super::bench::{Bench, SECONDS, age, set_mode, set_time};
use super::checked_list::{CONTENTS, NOTHING, entry, file, folder, leave};

/// Options of a dry run that reports all entries.
pub(super) fn dry() -> Options {
    Options {
        dry_run: Some(Detail::All),
        ..Options::default()
    }
}

/// A dry run fails for lack of space if the copy would fail, and otherwise succeeds.
#[test]
fn dry_run_rejects_files_that_do_not_fit() {
    let huge = 1 << 42;
    let bench = Bench::new("dry-fit");
    let there = fs::File::create(bench.target("there")).unwrap();
    there.set_len(huge).unwrap();
    age(&bench.target("there"));
    let linked = Entry {
        linked: Linked::To(9),
        ..file("new", huge)
    };
    let linking = Options {
        hard_links: true,
        ..dry()
    };
    for (entry, options, to, fits) in [
        (file("new", huge), &dry(), "target/", false),
        (file("there", huge), &dry(), "target/", true),
        (file("there", huge + 1), &dry(), "target/", false),
        (linked.clone(), &dry(), "target/", false),
        (linked, &linking, "target/", true),
        (file("new", huge), &linking, "target/", false),
        (folder("new"), &dry(), "target/", true),
        // the device of a directory that a dry run does not create is unknown
        (file("new", huge), &dry(), "nowhere/", true),
    ] {
        let case = format!("{entry:?} {to}");
        let checked = bench.check_list((to, false), &[entry], options);
        assert_eq!(checked.result.is_ok(), fits, "{case}");
        assert_eq!(checked.planned.len(), 1, "{case}");
    }
    // the device of a directory that would replace a file is unknown, too
    bench.leave("f", "x");
    let options = Options {
        delete: true,
        ..dry()
    };
    let list = [folder("f"), file("f/new", huge), leave("f")];
    assert_eq!(bench.check_list(CONTENTS, &list, &options).wants(), NOTHING);
    let beside = [folder("f"), leave("f"), file("fnew", huge)];
    assert!(
        bench
            .check_list(CONTENTS, &beside, &options)
            .result
            .is_err()
    );
    assert!(!bench.top.join("nowhere").exists());
}

/// A dry run changes nothing, and reports each entry once.
#[test]
fn dry_run_changes_no_files() {
    let (bench, _ordinary) = Bench::ordinary("dry");
    bench.leave("same", "abc");
    age(&bench.target("same"));
    bench.leave("sub/old", "x");
    set_mode(&bench.target("sub"), 0o500);
    // temporary files of dead processes stay, too
    let orphan = ".lighthaul-01234567-1-1-1-1";
    bench.leave(orphan, "x");
    let list = [
        file("same", 3),
        file("empty", 0),
        folder("sub"),
        file("sub/old", 9),
        leave("sub"),
        folder("new"),
        file("new/x", 1),
        leave("new"),
        entry("link", EntryKind::Link(b"same".to_vec())),
        leave(""),
    ];
    let options = Options {
        delete: true,
        ..dry()
    };
    let before = bench.look("");
    let checked = bench.check_list(CONTENTS, &list, &options);
    assert_eq!(checked.wants(), NOTHING);
    let actions: Vec<_> = checked
        .planned
        .iter()
        .map(|planned| (planned.action, String::from_utf8_lossy(&planned.path)))
        .collect();
    let expected = [
        (Action::Change, "same"),
        (Action::Create, "empty"),
        (Action::Change, "sub"),
        (Action::Replace, "sub/old"),
        (Action::Create, "new"),
        (Action::Create, "new/x"),
        (Action::Create, "link"),
    ];
    assert_eq!(
        actions,
        expected.map(|(action, path)| (action, path.into()))
    );
    assert_eq!(bench.look(""), before);
    assert_eq!(bench.look("sub").0, 0o500);
    assert_eq!(bench.names(""), [orphan, "same", "sub"]);
    assert!(checked.table.is_settled(), "no entry is pending");
    set_mode(&bench.target("sub"), 0o700);
}

/// Returns the actions of a dry run on `list`, each with its path, reason and bytes.
fn planned(bench: &Bench, list: &[Entry], options: &Options) -> Vec<(Action, String, String, u64)> {
    let checked = bench.check_list(CONTENTS, list, options);
    assert_eq!(checked.wants(), NOTHING);
    assert!(checked.table.is_settled());
    let planned = checked.planned.into_iter().map(|planned| {
        assert!(planned.kept == 0 && planned.item.is_none(), "{planned:?}");
        let path = String::from_utf8(planned.path).unwrap();
        (planned.action, path, planned.why, planned.bytes)
    });
    planned.collect()
}

/// Returns the expected result of [`planned`].
fn owned(expected: &[(Action, &str, &str, u64)]) -> Vec<(Action, String, String, u64)> {
    let owned = expected
        .iter()
        .map(|(action, path, why, bytes)| (*action, (*path).to_owned(), (*why).to_owned(), *bytes));
    owned.collect()
}

/// Creates a target with an entry for each reason.
fn compared(name: &str) -> Bench {
    let bench = Bench::new(name);
    for (path, bytes, mode, seconds) in [
        ("same", "abc", 0o640, 0),
        ("longer", "abcd", 0o640, 0),
        ("older", "abc", 0o640, -1),
        ("later", "abc", 0o640, 1),
        ("private", "abc", 0o600, 0),
        ("digest", "abc", 0o640, 1),
        ("altered", "abd", 0o640, 0),
        ("became-link", "abc", 0o640, 0),
    ] {
        bench.leave(path, bytes);
        set_mode(&bench.target(path), mode);
        set_time(&bench.target(path), SECONDS + seconds);
    }
    for (path, mode, seconds) in [("dir", 0o750, 0), ("old-dir", 0o700, 1)] {
        fs::create_dir(bench.target(path)).unwrap();
        set_mode(&bench.target(path), mode);
        set_time(&bench.target(path), SECONDS + seconds);
    }
    for (path, to, seconds) in [
        ("link", "same", 0),
        ("old-link", "same", 1),
        ("other-link", "longer", 0),
        ("became-file", "same", 0),
    ] {
        symlink(to, bench.target(path)).unwrap();
        set_time(&bench.target(path), SECONDS + seconds);
    }
    bench
}

/// Entries are compared by kind, then size, then digest or time.
#[test]
fn dry_run_reports_the_reason_of_each_action() {
    let bench = compared("dry-reasons");
    let digested = |path| Entry {
        digest: Some(ContentSum::Blake3(*blake3::hash(b"abc").as_bytes())),
        ..file(path, 3)
    };
    let link = |path| entry(path, EntryKind::Link(b"same".to_vec()));
    let list = [
        file("new", 3),
        file("same", 3),
        file("longer", 3),
        file("older", 3),
        file("later", 3),
        file("private", 3),
        digested("digest"),
        digested("altered"),
        file("became-file", 3),
        folder("dir"),
        leave("dir"),
        folder("old-dir"),
        leave("old-dir"),
        link("link"),
        link("old-link"),
        link("other-link"),
        link("became-link"),
    ];
    let (create, replace) = (Action::Create, Action::Replace);
    let (keep, change) = (Action::Keep, Action::Change);
    let expected = [
        (create, "new", "it does not exist", 3),
        (keep, "same", "the same size and time", 3),
        (replace, "longer", "different size", 3),
        (replace, "older", "different time", 3),
        (replace, "later", "different time", 3),
        (change, "private", "mode", 3),
        (change, "digest", "time", 3),
        (replace, "altered", "different digest", 3),
        (replace, "became-file", "it is not a file", 3),
        (keep, "dir", "it exists", 0),
        (change, "old-dir", "mode, time", 0),
        (keep, "link", "the same target and time", 0),
        (replace, "old-link", "not the same link", 0),
        (replace, "other-link", "not the same link", 0),
        (replace, "became-link", "not the same link", 0),
    ];
    assert_eq!(planned(&bench, &list, &dry()), owned(&expected));
    // a brief report has no unchanged entries, and no bytes of those whose metadata change
    let brief = Options {
        dry_run: Some(Detail::Brief),
        ..Options::default()
    };
    let mut changes = expected.to_vec();
    changes.retain(|(action, ..)| *action != keep);
    for (action, _, _, bytes) in &mut changes {
        if *action == change {
            *bytes = 0;
        }
    }
    assert_eq!(planned(&bench, &list, &brief), owned(&changes));
}

#[test]
fn dry_run_reports_newer_entries_and_entries_of_another_kind() {
    let (replace, keep, change) = (Action::Replace, Action::Keep, Action::Change);
    let bench = compared("dry-newer");
    // a newer file is kept with all of its metadata; a directory has no newer content
    let update = Options {
        update: true,
        ..dry()
    };
    let newer = [
        file("later", 9),
        file("older", 3),
        file("same", 9),
        file("private", 3),
        folder("old-dir"),
        leave("old-dir"),
    ];
    let expected = [
        (keep, "later", "the target is newer", 9),
        (replace, "older", "different time", 3),
        (replace, "same", "different size", 9),
        (change, "private", "mode", 3),
        (change, "old-dir", "mode, time", 0),
    ];
    assert_eq!(planned(&bench, &newer, &update), owned(&expected));
    let deleting = Options {
        delete: true,
        rules: Rules::parse(&[FilterOption::Filter(b"P *".to_vec())]).unwrap(),
        ..dry()
    };
    let became_folder = [folder("same"), leave("same")];
    let expected = [(replace, "same", "it is not a directory", 0)];
    assert_eq!(planned(&bench, &became_folder, &deleting), owned(&expected));
}

/// A dry run reports the target directory only if the copy would change it.
#[test]
fn dry_run_reports_a_target_folder_that_a_copy_would_change() {
    let owner = Options {
        keep: Keep {
            owner: true,
            ..Keep::default()
        },
        ..dry()
    };
    let bench = Bench::new("dry-top");
    for (to, options, told) in [
        ("target/", &dry(), false),
        ("target/", &owner, true),
        ("nowhere/", &owner, false),
    ] {
        let checked = bench.check_list((to, false), &[leave("")], options);
        assert_eq!(checked.wants(), NOTHING);
        assert_eq!(!checked.planned.is_empty(), told, "{to}");
        assert!(checked.table.is_settled());
    }
}
