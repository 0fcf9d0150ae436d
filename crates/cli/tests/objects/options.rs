//! Options of copies with a bucket: selection, deletion, and those that are refused.

use std::fs;

use crate::scratch::{dress, names};
use crate::server::Server;

fn three(server: &Server) {
    for name in ["a.txt", "b.log", "sub/c.txt"] {
        server.write(&format!("t/{name}"), name);
    }
}

#[test]
fn rules_and_sizes_select_files_in_both_directions() {
    let Some(server) = Server::start("rules") else {
        return;
    };
    three(&server);
    server.copy(&["--exclude", "*.log", "t/", "s3://data/x/"]);
    server.copy(&["t/", "s3://data/y/"]);
    server.copy(&["--max-size", "5B", "t/", "s3://data/z/"]);
    assert_eq!(
        server.keys(),
        [
            "x/a.txt",
            "x/sub/c.txt",
            "y/a.txt",
            "y/b.log",
            "y/sub/c.txt",
            "z/a.txt",
            "z/b.log"
        ]
    );
    server.copy(&["--exclude", "sub/", "s3://data/y/", "d"]);
    assert_eq!(names(&server.scratch.at("d")), ["a.txt", "b.log"]);
}

#[test]
fn deletion_removes_what_the_source_does_not_have() {
    let Some(server) = Server::start("delete") else {
        return;
    };
    three(&server);
    server.copy(&["t/", "s3://data/p/"]);
    server.copy(&["t/", "s3://data/pq/"]);
    fs::remove_file(server.scratch.at("t/b.log")).unwrap();
    fs::remove_file(server.scratch.at("t/sub/c.txt")).unwrap();
    server
        .run(&["cp", "--delete", "t/", "s3://data/p/"])
        .assert_failed(1, "add --yes");
    let dry = server
        .run(&["cp", "-n", "--delete", "t/", "s3://data/p/"])
        .assert_succeeded();
    assert_eq!(dry.out, ["delete   b.log", "delete   sub/c.txt"]);
    let limited = server.run(&[
        "cp",
        "--delete",
        "--yes",
        "--max-delete",
        "1",
        "t/",
        "s3://data/p/",
    ]);
    limited.assert_failed(25, "--max-delete");
    server.copy(&[
        "--delete",
        "--yes",
        "--exclude",
        "sub/",
        "t/",
        "s3://data/p/",
    ]);
    assert_eq!(
        server.keys(),
        [
            "p/a.txt",
            "p/sub/c.txt",
            "pq/a.txt",
            "pq/b.log",
            "pq/sub/c.txt"
        ]
    );
    server.write("d/stays/x", "x");
    server.write("d/gone", "x");
    let down = server.copy(&[
        "--delete",
        "--yes",
        "--exclude",
        "/stays",
        "s3://data/p/",
        "d",
    ]);
    assert_eq!(down.event("removed")["path"], "gone");
    assert_eq!(names(&server.scratch.at("d")), ["a.txt", "stays", "sub"]);
}

#[test]
fn newer_and_existing_targets_stay() {
    let Some(server) = Server::start("newer") else {
        return;
    };
    server.write("f", "old");
    dress(&server.scratch.at("f"), 0o644, 1_700_000_000);
    server.copy(&["f", "s3://data/"]);
    server.write("f", "new and longer");
    dress(&server.scratch.at("f"), 0o644, 1_600_000_000);
    let kept = |args: &[&str]| server.copy(args).event("summary")["bytes_moved"] == 0;
    assert!(kept(&["--update", "f", "s3://data/"]));
    assert!(kept(&["--ignore-existing", "f", "s3://data/"]));
    assert!(kept(&["--existing", "f", "s3://data/none"]));
    dress(&server.scratch.at("f"), 0o644, 1_800_000_000);
    assert!(!kept(&["--update", "f", "s3://data/"]));
    assert!(!kept(&["--ignore-existing", "f", "s3://data/created"]));
    // with equal size and time, only the content tells
    server.write("f", "NEW AND LONGER");
    dress(&server.scratch.at("f"), 0o644, 1_800_000_000);
    assert!(kept(&["f", "s3://data/"]));
    assert!(!kept(&["--checksum", "f", "s3://data/"]));
    assert!(kept(&["--checksum", "f", "s3://data/"]));
    server.write("back", "new and longer");
    dress(&server.scratch.at("back"), 0o644, 1_800_000_000);
    assert!(kept(&["s3://data/f", "back"]));
    assert!(!kept(&["--checksum", "s3://data/f", "back"]));
    assert_eq!(server.read("back"), "NEW AND LONGER");
}

#[test]
fn options_without_a_meaning_are_refused() {
    let Some(server) = Server::start("refused") else {
        return;
    };
    server.write("f", "x");
    for option in [
        "-a",
        "-H",
        "-X",
        "-A",
        "-U",
        "-S",
        "--inplace",
        "--backup",
        "--remove-source-files",
        "--verify=disk",
        "--hash=md5",
        "--protocol=tcp",
        "--rate=1Gb/s",
        "--limit=1MB/s",
        "--plain",
        "--chmod=go-w",
        "--delta=always",
        "--link-dest=x",
    ] {
        let refused = server.run(&["cp", option, "f", "s3://data/x"]);
        refused.assert_failed(1, "does not apply to object stores");
    }
    assert!(server.keys().is_empty());
    for (args, words) in [
        (&["f", "http://127.0.0.1:9/x"][..], "only a source"),
        (&["s3://data/x", "lh://127.0.0.1/x"], "not another one"),
        (&["f", "s3://data/x", "d"], "all sources must be"),
        (&["f", "ftp://host/x"], "invalid place"),
        (&["f", "s3://"], "invalid place"),
    ] {
        let args = [&["cp"], args].concat();
        server.run(&args).assert_failed(1, words);
    }
    server
        .run(&["cat", "s3://data/x"])
        .assert_failed(1, "is in an object store");
}

#[test]
fn links_and_names_that_are_no_keys_are_reported() {
    let Some(server) = Server::start("links") else {
        return;
    };
    server.write("t/a", "a");
    server.write("t/bad\nname", "b");
    std::os::unix::fs::symlink("a", server.scratch.at("t/link")).unwrap();
    let outcome = server.run(&["cp", "t/", "s3://data/"]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert!(
        outcome.said("no symbolic links") && outcome.said("control characters"),
        "{outcome:?}"
    );
    assert_eq!(server.keys(), ["a"]);
    let followed = server.run(&["cp", "-L", "--exclude", "bad*", "t/", "s3://data/"]);
    followed.assert_succeeded();
    assert_eq!(server.keys(), ["a", "link"]);
}
