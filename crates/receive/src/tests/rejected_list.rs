//! Lists that the checker rejects: malformed messages, sizes and names that the target cannot have.

use std::fs;
use std::path::Path;

use lighthaul_copy::message::{Listing, WantedFiles};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::Options;
use lighthaul_session::error::Code;

use super::bench::Bench;
use super::checked_list::{CONTENTS, NOTHING, file, folder, leave, writer};
use super::dry_run::dry;
use super::entry_checker::sparse;

#[test]
fn malformed_list_is_rejected() {
    let bench = Bench::new("nonsense");
    let pages = [
        vec![Listing::End],
        vec![
            Listing::Begin {
                naming: Naming::Contents,
            },
            Listing::Begin {
                naming: Naming::Contents,
            },
        ],
        vec![
            Listing::Begin {
                naming: Naming::Contents,
            },
            Listing::Wanted(WantedFiles {
                entries: 0,
                taken: 0,
                files: Vec::new(),
            }),
        ],
        vec![
            Listing::Begin {
                naming: Naming::Contents,
            },
            Listing::RequestPaths,
        ],
        vec![
            Listing::Begin {
                naming: Naming::Contents,
            },
            Listing::Entries(vec![0xff; 9]),
        ],
    ];
    for list in pages {
        let checked = bench.check_messages("target/", &list, &Options::default());
        assert_eq!(checked.result.unwrap_err().code(), Code::Protocol);
    }
    // only a copy of contents has an entry for the target directory
    let top = [leave("")];
    let named = bench.check_list(("target/", true), &top, &Options::default());
    assert_eq!(named.result.unwrap_err().code(), Code::Protocol);
    assert_eq!(
        bench
            .check_list(CONTENTS, &top, &Options::default())
            .wants(),
        NOTHING
    );
    let inner = [folder("a"), leave("a")];
    assert_eq!(
        bench
            .check_list(("target/", true), &inner, &Options::default())
            .wants(),
        NOTHING
    );
}

/// A dry run writes nothing, so that it needs no contents.
#[test]
fn contents_are_rejected_in_a_dry_run() {
    let list = [
        Listing::Begin {
            naming: Naming::Contents,
        },
        Listing::Contents(Vec::new()),
        Listing::End,
    ];
    for (options, is_rejected) in [(dry(), true), (Options::default(), false)] {
        let bench = Bench::new("dry-contents");
        let checked = bench.check_messages("target/", &list, &options);
        let code = checked.result.err().map(|error| error.code());
        assert_eq!(code, is_rejected.then_some(Code::Protocol));
    }
}

#[test]
fn file_larger_than_any_disk_is_rejected() {
    let bench = Bench::new("huge");
    let most = i64::MAX as u64;
    let list = [file("a", most + 1), file("b", most)];
    let checked = bench.check_list(CONTENTS, &list, &sparse());
    let (path, _, why) = checked.failure();
    assert_eq!(path, "a");
    assert!(why.contains("no file can have"), "{why}");
    assert_eq!(checked.wanted[0].number, 1);
    // the largest possible file fits no disk, so the copy is rejected before any byte is sent
    for list in [[file("b", most)], [file("c", 1 << 50)]] {
        let checked = bench.check_list(CONTENTS, &list, &Options::default());
        assert_eq!(checked.result.unwrap_err().code(), Code::Io);
        assert_eq!(checked.wanted, []);
    }
}

/// On a target that ignores case, the second of two equal names is rejected, as it would replace
/// the first.
#[test]
fn name_that_the_target_equates_with_another_is_rejected() {
    let bench = Bench::new("folds");
    let list = [file("Readme", 0), file("readme", 0), file("other", 0)];
    let checked = bench.check_list(CONTENTS, &list, &Options::default());
    assert_eq!(
        checked.wants(),
        NOTHING,
        "this file system distinguishes them"
    );
    for name in ["Readme", "readme", "other"] {
        fs::remove_file(bench.target(name)).unwrap();
    }
    // the test file for the check exists in upper case, as on a file system that ignores case
    for (number, name) in ["Readme", "readme", "other"].into_iter().enumerate() {
        let tried = writer().number(Path::new(name), number as u64);
        bench.leave(&format!(".lighthaul-{tried:016x}-A"), "");
    }
    // a dry run writes no test file
    let told = bench.check_list(CONTENTS, &list, &dry());
    assert_eq!(told.wants(), NOTHING);
    let checked = bench.check_list(CONTENTS, &list, &Options::default());
    let (path, code, why) = checked.failure();
    assert_eq!((path.as_str(), code), ("readme", Code::Open as u8));
    assert!(why.contains("only in case"), "{why}");
    assert_eq!(checked.settled(), (2, 0));
}
