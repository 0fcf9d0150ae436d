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
    server
        .run(&["cp", "s3://data/a", "d7"])
        .assert_failed(3, "there is no such object");
    server.run(&["cp", "s3://data/a/", "d8"]).assert_succeeded();
    assert!(names(&server.scratch.at("d8")).is_empty());
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
