//! Dry runs of the receiver on a list of entries.

use std::fs;

use lighthaul_files::manifest::{Entry, EntryKind, Linked};
use lighthaul_files::options::{Action, Detail, Options};
use lighthaul_fs::metadata::Keep;

use super::bench::{Bench, age, set_mode};
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
fn dry_run_changes_nothing() {
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

/// A dry run reports the target directory only if the copy would change it.
#[test]
fn dry_run_reports_the_target_folder_if_a_copy_changes_it() {
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
