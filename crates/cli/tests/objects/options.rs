//! Options of copies with a bucket: selection, deletion, and those that are refused.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::proxy::{Fault, Proxy};
use crate::running::Running;
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
fn existing_link_stays() {
    let Some(server) = Server::start("existing-link") else {
        return;
    };
    server.write("f", "from the store");
    server.copy(&["f", "s3://data/"]);
    server.write("d/other", "other");
    std::os::unix::fs::symlink("other", server.scratch.at("d/f")).unwrap();
    server.copy(&["--ignore-existing", "s3://data/f", "d/"]);
    assert!(server.scratch.at("d/f").is_symlink());
    server.copy(&["--existing", "s3://data/f", "d/"]);
    assert!(!server.scratch.at("d/f").is_symlink());
    assert_eq!(
        server.read("d/f") + &server.read("d/other"),
        "from the storeother"
    );
}

#[test]
fn replaced_file_loses_its_set_id_bits() {
    let Some(server) = Server::start("set-id") else {
        return;
    };
    server.write("f", "new content");
    server.scratch.file("large", 9 << 20);
    server.copy(&["f", "large", "s3://data/"]);
    for name in ["f", "large"] {
        server.write(&format!("d/{name}"), "old");
        dress(
            &server.scratch.at(&format!("d/{name}")),
            0o6751,
            1_700_000_000,
        );
        server.copy(&[&format!("s3://data/{name}"), "d/"]);
        let meta = fs::metadata(server.scratch.at(&format!("d/{name}"))).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.len() > 3), (0o751, true));
    }
}

#[test]
fn object_without_a_time_is_downloaded_once() {
    let Some(server) = Server::start("no-time") else {
        return;
    };
    // another program has written it
    fs::create_dir_all(server.object("p")).unwrap();
    fs::write(server.object("p/f"), "x").unwrap();
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("list-type=2") && head.contains("max-keys=1000") {
            return Fault::Change(|answer| {
                // lists of other servers have fractions of seconds, and headers have none
                let text = String::from_utf8(answer).unwrap();
                let (head, body) = text.split_once("\r\n\r\n").unwrap();
                assert!(!body.contains(".000Z"), "{body}");
                let body = body.replace("Z</LastModified>", ".250Z</LastModified>");
                let lines = head
                    .lines()
                    .filter(|line| !line.to_lowercase().starts_with("content-length:"));
                let head: Vec<&str> = lines.collect();
                let (head, len) = (head.join("\r\n"), body.len());
                format!("{head}\r\nContent-Length: {len}\r\n\r\n{body}").into_bytes()
            });
        }
        Fault::Pass
    });
    let copy = || {
        let args = ["cp", "--json", "s3://data/p/", "d"];
        let outcome = Running::start(server.command_at(&proxy.address, &args)).finish();
        outcome.assert_succeeded().event("summary")["bytes_moved"].clone()
    };
    assert_eq!((copy(), copy()), (1.into(), 0.into()));
}

#[test]
fn few_files_do_not_list_a_whole_bucket() {
    let Some(server) = Server::start("few") else {
        return;
    };
    for name in ["a", "b", "dir/c"] {
        server.write(name, name);
    }
    server.copy(&["a", "s3://data/from/"]);
    server.copy(&["dir", "s3://data/from/"]);
    let proxy = Proxy::start(&server.address, |_, _| Fault::Pass);
    let copy = |args: &[&str]| {
        let args = [&["cp", "--json"], args].concat();
        let outcome = Running::start(server.command_at(&proxy.address, &args)).finish();
        outcome.assert_succeeded().event("summary")["bytes_moved"].clone()
    };
    assert_eq!(copy(&["a", "b", "dir", "s3://data/"]), 7);
    assert_eq!(copy(&["a", "b", "dir", "s3://data/"]), 0);
    assert_eq!(
        copy(&["--ignore-existing", "a", "b", "dir", "s3://data/"]),
        0
    );
    let from = ["s3://data/from/a", "s3://data/from/dir", "s3://data/"];
    assert_eq!(copy(&from), 0);
    assert_eq!(proxy.count("&prefix= "), 0);
    assert!(proxy.count("&prefix=dir%2F ") >= 3);
}

#[test]
fn update_between_buckets_keeps_what_changes_meanwhile() {
    let Some(server) = Server::start("update-between") else {
        return;
    };
    server.scratch.folder("store/other");
    for (name, text, time) in [
        ("old", "old", 1_500_000_000),
        ("new", "newer", 1_600_000_000),
    ] {
        server.write(name, text);
        dress(&server.scratch.at(name), 0o644, time);
    }
    server.copy(&["old", "s3://other/x"]);
    server.copy(&["new", "s3://data/x"]);
    let proxy = Proxy::start(&server.address, |_, _| Fault::Pass);
    let args = ["cp", "--update", "s3://data/x", "s3://other/x"];
    Running::start(server.command_at(&proxy.address, &args))
        .finish()
        .assert_succeeded();
    assert_eq!(proxy.count("\r\nif-match: "), 1);
    server.copy(&["s3://other/x", "x"]);
    assert_eq!(server.read("x"), "newer");
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
