//! Answers of a dry run to a list.

use std::fs;

use lighthaul_io::fs::metadata::Keep;

use super::bench::{Bench, age, set_mode};
use super::judged::{CONTENTS, NOTHING, entry, file, folder, leave};
use crate::manifest::{Entry, Kind, Linked};
use crate::options::{Action, Detail, Options};

/// A dry run that tells all.
pub(super) fn dry() -> Options {
    Options {
        dry_run: Some(Detail::All),
        ..Options::default()
    }
}

/// A dry run refuses what the copy would refuse for lack of space, and nothing else.
#[test]
fn dry_run_refuses_what_does_not_fit() {
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
        // where a dry run makes no folder, nobody knows the disk
        (file("new", huge), &dry(), "nowhere/", true),
    ] {
        let case = format!("{entry:?} {to}");
        let judged = bench.judge((to, false), &[entry], options);
        assert_eq!(judged.result.is_ok(), fits, "{case}");
        assert_eq!(judged.planned.len(), 1, "{case}");
    }
    // a folder that would take the place of a file is on no disk yet
    bench.leave("f", "x");
    let options = Options {
        delete: true,
        ..dry()
    };
    let list = [folder("f"), file("f/new", huge), leave("f")];
    assert_eq!(bench.judge(CONTENTS, &list, &options).wants(), NOTHING);
    let beside = [folder("f"), leave("f"), file("fnew", huge)];
    assert!(bench.judge(CONTENTS, &beside, &options).result.is_err());
    assert!(!bench.top.join("nowhere").exists());
}

/// A dry run changes nothing, and tells each entry once.
#[test]
fn dry_run_changes_nothing() {
    let (bench, _ordinary) = Bench::ordinary("dry");
    bench.leave("same", "abc");
    age(&bench.target("same"));
    bench.leave("sub/old", "x");
    set_mode(&bench.target("sub"), 0o500);
    // what a dead process left stays, too
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
        entry("link", Kind::Link(b"same".to_vec())),
        leave(""),
    ];
    let options = Options {
        delete: true,
        ..dry()
    };
    let before = bench.look("");
    let judged = bench.judge(CONTENTS, &list, &options);
    assert_eq!(judged.wants(), NOTHING);
    let actions: Vec<_> = judged
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
    assert!(judged.ledger.is_settled(), "nothing is left to come");
    set_mode(&bench.target("sub"), 0o700);
}

/// A dry run tells of the folder itself only where the copy would change it.
#[test]
fn dry_run_tells_of_the_target_folder_what_a_copy_changes() {
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
        let judged = bench.judge((to, false), &[leave("")], options);
        assert_eq!(judged.wants(), NOTHING);
        assert_eq!(!judged.planned.is_empty(), told, "{to}");
        assert!(judged.ledger.is_settled());
    }
}
