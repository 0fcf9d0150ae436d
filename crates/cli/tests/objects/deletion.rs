//! Deletion at the target: removes only entries that the source does not have, and none that a rule or a mount point
//! protects.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::running::{Outcome, Running};
use crate::scratch::names;
use crate::server::Server;
use crate::web::{Body, Site};

/// Copies with `--delete`.
fn mirror(server: &Server, args: &[&str]) -> Outcome {
    server.copy(&[&["--delete", "--yes"], args].concat())
}

#[test]
fn single_object_deletes_nothing() {
    let Some(server) = Server::start("delete-single") else {
        return;
    };
    server.write("f", "file");
    server.copy(&["f", "s3://data/p/f"]);
    server.write("d/other", "x");
    mirror(&server, &["s3://data/p/f", "d/"]);
    mirror(&server, &["s3://data/p/f", "d/second"]);
    mirror(&server, &["-T", "s3://data/p/f", "third"]);
    assert_eq!(server.read("third"), "file");
    for body in [Body::Ranges("\"e\""), Body::Whole] {
        let site = Site::start(b"web".to_vec(), body);
        mirror(&server, &[&site.url("w"), "d/"]);
        mirror(&server, &[&site.url("w"), "d/w2"]);
    }
    let expected = ["f", "other", "second", "w", "w2"];
    assert_eq!(names(&server.scratch.at("d")), expected);
    let sources = ["cp", "--delete", "--yes", "s3://data/p/f", "s3://data/p"];
    let refused = server.run(&[&sources[..], &["d"]].concat());
    refused.assert_failed(1, "--delete needs one source");
    let refused = server.run(&[&sources[..], &["s3://data/q"]].concat());
    refused.assert_failed(1, "--delete needs one source");
    assert_eq!(names(&server.scratch.at("d")), expected);
}

#[test]
fn objects_below_a_mount_point_stay() {
    if lighthaul_testkit::lacks_root("objects below a mount point") {
        return;
    }
    let Some(server) = Server::start("delete-mount") else {
        return;
    };
    for name in ["a", "gone", "m/x", "mx"] {
        server.write(&format!("t/{name}"), name);
    }
    server.copy(&["t/", "s3://data/p/"]);
    server.copy(&["t", "s3://data/q"]);
    server.copy(&["-T", "t", "s3://data/r"]);
    fs::remove_file(server.scratch.at("t/gone")).unwrap();
    fs::remove_file(server.scratch.at("t/mx")).unwrap();
    let place = server.scratch.at("t/m");
    let run = |words: &[&str], place: &Path| {
        let status = Command::new(words[0]).args(&words[1..]).arg(place).status();
        assert!(status.unwrap().success());
    };
    run(&["mount", "-t", "tmpfs", "tmpfs"], &place);
    let outcomes = [
        &["t/", "s3://data/p/"][..],
        &["t", "s3://data/q"],
        &["-T", "t", "s3://data/r"],
    ]
    .map(|args| server.run(&[&["cp", "-x", "--delete", "--yes"], args].concat()));
    run(&["umount"], &place);
    for outcome in outcomes {
        outcome.assert_succeeded();
    }
    assert_eq!(
        server.keys(),
        ["p/a", "p/m/x", "q/t/a", "q/t/m/x", "r/a", "r/m/x"]
    );
}

#[test]
fn rules_protect_a_renamed_tree() {
    let Some(server) = Server::start("delete-renamed") else {
        return;
    };
    for name in ["keep/a", "b", "gone"] {
        server.write(&format!("t/{name}"), name);
    }
    server.copy(&["-T", "t", "s3://data/q"]);
    fs::remove_dir_all(server.scratch.at("t/keep")).unwrap();
    fs::remove_file(server.scratch.at("t/gone")).unwrap();
    mirror(&server, &["-T", "--exclude", "/t/keep", "t", "s3://data/q"]);
    assert_eq!(server.keys(), ["q/b", "q/keep/a"]);
    server.write("d/stays/x", "x");
    server.write("d/gone", "x");
    mirror(
        &server,
        &["-T", "--exclude", "/q/stays", "s3://data/q", "d"],
    );
    assert_eq!(names(&server.scratch.at("d")), ["b", "keep", "stays"]);
    // between buckets
    server.scratch.folder("store/other");
    server.write("stays", "x");
    server.copy(&["stays", "s3://other/u/stays/x"]);
    server.copy(&["stays", "s3://other/u/gone"]);
    mirror(
        &server,
        &["-T", "--exclude", "/q/stays", "s3://data/q", "s3://other/u"],
    );
    let left = server.run(&["ls", "--recursive", "s3://other/u"]).out;
    assert!(left.contains(&"stays/x".to_owned()), "{left:?}");
    assert!(!left.contains(&"gone".to_owned()), "{left:?}");
}

#[test]
fn link_at_the_target_is_no_directory() {
    let Some(server) = Server::start("delete-link") else {
        return;
    };
    for name in ["a", "e/x"] {
        server.write(&format!("t/{name}"), name);
    }
    server.copy(&["t/", "s3://data/p/"]);
    server.write("d/real/y", "y");
    symlink("real", server.scratch.at("d/e")).unwrap();
    let outcome = server.run(&["cp", "--delete", "--yes", "s3://data/p/", "d"]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert!(outcome.said("symbolic link"), "{outcome:?}");
    assert_eq!(names(&server.scratch.at("d")), ["a", "e", "real"]);
    assert_eq!(names(&server.scratch.at("d/real")), ["y"]);
    // also if the target of the link is equal
    server.copy(&["s3://data/p/e/x", "d/real/x"]);
    let outcome = server.run(&["cp", "--delete", "--yes", "s3://data/p/", "d"]);
    assert!(outcome.said("symbolic link"), "{outcome:?}");
    assert_eq!(names(&server.scratch.at("d")), ["a", "e", "real"]);
    assert_eq!(names(&server.scratch.at("d/real")), ["x", "y"]);
    // the user named the link as the target
    server.write("d2/gone", "x");
    symlink("d2", server.scratch.at("link")).unwrap();
    mirror(&server, &["s3://data/p/", "link"]);
    assert_eq!(names(&server.scratch.at("d2")), ["a", "e"]);
    assert!(server.scratch.at("link").is_symlink());
}

#[test]
fn copy_of_a_prefix_into_itself_is_refused() {
    let Some(server) = Server::start("into-itself") else {
        return;
    };
    server.write("f", "x");
    server.copy(&["f", "s3://data/a/b/f"]);
    for (source, target) in [
        ("s3://data/", "s3://data/copy/"),
        ("s3://data/a", "s3://data/a/b"),
        ("s3://data/a/", "s3://data/a"),
    ] {
        let outcome = server.run(&["cp", source, target]);
        outcome.assert_failed(1, "contains the");
    }
    let outward = ["s3://data/a/b/", "s3://data/"];
    server
        .run(&[&["cp", "--delete", "--yes"], &outward[..]].concat())
        .assert_failed(1, "contains the");
    server.copy(&outward);
    assert_eq!(server.keys(), ["a/b/f", "f"]);
}

#[test]
fn list_that_a_key_may_not_read_ends_a_copy_that_needs_it() {
    let Some(server) = Server::start("denied-list") else {
        return;
    };
    server.write("t/a", "new");
    server.copy(&["t/", "s3://data/p/"]);
    let proxy = crate::proxy::Proxy::start(&server.address, |head, _| {
        if head.contains("list-type=2") || head.starts_with("HEAD ") {
            let text = "<Error><Code>AccessDenied</Code></Error>".to_owned();
            return crate::proxy::Fault::Answer(403, text);
        }
        crate::proxy::Fault::Pass
    });
    let run = |args: &[&str]| Running::start(server.command_at(&proxy.address, args)).finish();
    for option in ["--update", "--ignore-existing", "--existing"] {
        for args in [&["t/", "s3://data/p/"][..], &["-T", "t/a", "s3://data/p/a"]] {
            let outcome = run(&[&["cp", option], args].concat());
            outcome.assert_failed(13, "AccessDenied");
        }
    }
    assert_eq!(server.read("store/data/p/a"), "new");
    run(&["cp", "-T", "t/a", "s3://data/p/a"]).assert_succeeded();
}
