//! Copies of trees and files to a bucket, back, and between buckets.

use std::fs;

use crate::scratch::{dress, names, tree};
use crate::server::Server;

#[test]
fn tree_goes_up_and_comes_back() {
    let Some(server) = Server::start("round-trip") else {
        return;
    };
    let scratch = &server.scratch;
    scratch.folder("tree/inner/deep");
    for (name, len) in [
        ("a", 0),
        ("b c", 1),
        ("größe", 70_000),
        ("inner/large", (20 << 20) + 7),
        ("inner/deep/x", 9),
    ] {
        scratch.file(&format!("tree/{name}"), len);
        dress(
            &scratch.at(&format!("tree/{name}")),
            0o644,
            1_600_000_000 + len,
        );
    }
    let up = server.copy(&["tree/", "s3://data/p/"]).event("summary");
    assert_eq!(
        (&up["entries"], &up["unchanged"], &up["verified"]),
        (&5.into(), &0.into(), &true.into())
    );
    assert_eq!(up["bytes_moved"], (20 << 20) + 7 + 1 + 70_000 + 9);
    let again = server.copy(&["tree/", "s3://data/p/"]).event("summary");
    assert_eq!(
        (&again["unchanged"], &again["bytes_moved"]),
        (&5.into(), &0.into())
    );
    server.copy(&["s3://data/p/", "back/"]);
    let files = |folder: &str| {
        let mut found = tree(&scratch.at(folder));
        found.retain(|path, _| scratch.at(folder).join(path).is_file());
        found
    };
    assert_eq!(files("tree"), files("back"));
    let again = server.copy(&["s3://data/p/", "back/"]).event("summary");
    assert_eq!(
        (&again["unchanged"], &again["bytes_moved"]),
        (&5.into(), &0.into())
    );
}

#[test]
fn places_of_objects_follow_the_rules_of_paths() {
    let Some(server) = Server::start("places") else {
        return;
    };
    server.write("f", "file");
    server.write("dir/x", "x");
    for args in [
        &["f", "s3://data/new"][..],
        &["f", "s3://data/into/"],
        &["f", "s3://data"],
        &["dir", "s3://data/p"],
        &["-T", "dir", "s3://data/q"],
        &["dir/", "s3://data/r"],
        &["f", "dir", "s3://data/several"],
        // a prefix with objects is a directory
        &["f", "s3://data/p"],
    ] {
        server.copy(args);
    }
    let expected = [
        "f",
        "into/f",
        "new",
        "p/dir/x",
        "p/f",
        "q/x",
        "r/x",
        "several/dir/x",
        "several/f",
    ];
    assert_eq!(server.keys(), expected);
    for (source, target, path) in [
        ("s3://data/new", "d1", "d1"),
        ("s3://data/new", "d2/", "d2/new"),
        ("s3://data/p/dir", "d3", "d3/dir/x"),
        ("s3://data/p/dir/", "d4", "d4/x"),
        ("s3://data/q", "d2", "d2/q/x"),
    ] {
        server.copy(&[source, target]);
        assert!(server.scratch.at(path).is_file(), "{source} {target}");
    }
    server.copy(&["-T", "s3://data/q", "d5"]);
    assert_eq!(server.read("d5/x"), "x");
    server.copy(&["s3://data/new", "s3://data/q/x", "d6"]);
    assert_eq!(names(&server.scratch.at("d6")), ["new", "x"]);
    // p is not ab
    server.copy(&["f", "s3://data/ab/y"]);
    for source in ["s3://data/a", "s3://data/a/"] {
        // with --delete, an empty source would empty the target
        server
            .run(&["cp", "--delete", "--yes", source, "d4"])
            .assert_failed(3, "there is no such object");
    }
    assert!(server.scratch.at("d4/x").is_file());
    server
        .run(&["cp", "f", "s3://none/x"])
        .assert_failed(3, "there is no such bucket");
}

#[test]
fn store_copies_between_its_buckets() {
    let Some(server) = Server::start("between") else {
        return;
    };
    server.scratch.folder("store/other");
    server.scratch.file("large", 9 << 20);
    server.write("t/a", "a");
    server.copy(&["large", "s3://data/t/"]);
    server.copy(&["t/", "s3://data/t/"]);
    let copied = server
        .copy(&["s3://data/t", "s3://other/u"])
        .event("summary");
    assert_eq!(copied["entries"], 2);
    server.copy(&["s3://other/u/t/", "back"]);
    assert_eq!(
        fs::read(server.scratch.at("back/large")).unwrap(),
        fs::read(server.scratch.at("large")).unwrap()
    );
    let again = server
        .copy(&["s3://data/t", "s3://other/u"])
        .event("summary");
    assert_eq!(
        (&again["unchanged"], &again["bytes_moved"]),
        (&2.into(), &0.into())
    );
    let same = server.run(&["cp", "s3://data/t/a", "s3://data/t/"]);
    same.assert_failed(1, "source and target are the same object");
}

#[test]
fn progress_and_changes_are_reported() {
    let Some(server) = Server::start("reports") else {
        return;
    };
    server.write("t/a", "a");
    server.write("t/b", "b");
    let dry = server
        .run(&["cp", "-n", "t/", "s3://data/"])
        .assert_succeeded();
    let mut planned = dry.out;
    planned.sort();
    assert_eq!(planned, ["create   a", "create   b"]);
    assert!(server.keys().is_empty());
    let verbose = server
        .run(&["cp", "-v", "t/", "s3://data/"])
        .assert_succeeded();
    let mut printed = verbose.out.clone();
    printed.sort();
    assert_eq!(printed, ["a", "b"]);
    assert!(
        verbose.said("2 B in 2 entries") && verbose.said("verified"),
        "{verbose:?}"
    );
    server.write("t/a", "longer");
    let items = server
        .run(&["cp", "-i", "t/", "s3://data/"])
        .assert_succeeded();
    assert_eq!(items.out, ["<f.s....... a"]);
    let down = server
        .run(&["cp", "-i", "s3://data/", "back"])
        .assert_succeeded();
    assert!(down.out.contains(&">f+++++++++ a".to_owned()), "{down:?}");
}

#[test]
fn list_of_paths_selects_objects_on_either_side() {
    let Some(server) = Server::start("listed") else {
        return;
    };
    for path in ["a", "b c", "sub/x", "sub/deep/y", "other/z", "-- #x"] {
        server.write(&format!("tree/{path}"), path);
    }
    server.scratch.file("tree/large", (9 << 20) + 1);
    server.write("list", "# these\na\n./b c\nsub//deep\na\nlarge\n");
    let entries = |args: &[&str]| server.copy(args).event("summary")["entries"].clone();
    let listed = ["a", "b c", "large", "sub/deep/y"];
    let up = ["--files-from", "list", "tree", "s3://data/p"];
    assert_eq!(entries(&up), 4);
    let below = |prefix: &str| {
        let keys = server.keys().into_iter();
        let keys = keys.filter_map(|key| key.strip_prefix(prefix).map(str::to_owned));
        keys.collect::<Vec<_>>()
    };
    assert_eq!(below("p/"), listed);
    let again = server.copy(&up).event("summary");
    assert_eq!(
        (&again["entries"], &again["unchanged"]),
        (&4.into(), &4.into())
    );
    // all of the tree, of which the lists name some
    server.copy(&["tree/", "s3://data/all/"]);
    assert_eq!(
        entries(&["--files-from", "list", "s3://data/all", "down"]),
        4
    );
    let found = tree(&server.scratch.at("down"));
    let files = found
        .keys()
        .filter(|path| server.scratch.at("down").join(path).is_file());
    let files: Vec<String> = files
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, listed);
    let between = ["--files-from", "list", "s3://data/all/", "s3://data/q/"];
    assert_eq!(entries(&between), 4);
    assert_eq!(below("q/"), listed);
    // paths that have no object are failures, which the same option takes
    fs::write(server.scratch.at("nul"), b"a\0missing\0sub/x\0\xff\0").unwrap();
    let args = [
        "cp",
        "-0",
        "--files-from",
        "nul",
        "--failures",
        "failed",
        "s3://data/all",
        "e",
    ];
    let outcome = server.run(&args);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert!(outcome.said("there is no such object"), "{outcome:?}");
    assert_eq!(names(&server.scratch.at("e")), ["a", "sub"]);
    server.write("missing", "here");
    server.copy(&["missing", "s3://data/all/"]);
    let outcome = server.run(&["cp", "--files-from", "failed", "s3://data/all", "e"]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert_eq!(server.read("e/missing"), "here");
    for path in ["../x", "/a/../../x"] {
        server.write("bad", path);
        let outcome = server.run(&["cp", "--files-from", "bad", "s3://data/all", "f"]);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    }
    let args = ["cp", "--files-from", "list", "http://127.0.0.1:9/x", "g"];
    server.run(&args).assert_failed(1, "not a web server");
}
