//! Copies from an object store through a daemon.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::gate::Gate;
use crate::proxy::{Fault, Proxy, replaced};
use crate::running::becomes_true;
use crate::scratch::{dress, names};
use crate::served_daemon::{Daemon, LARGE};
use crate::server::Server;

/// Writes files of these lengths below `tree`, each with a time of its own, and copies them to the store.
fn store_tree(server: &Server, lengths: &[(&str, u64)]) {
    for (name, len) in lengths {
        let path = server.scratch.at(&format!("tree/{name}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        server.scratch.file(&format!("tree/{name}"), *len);
        dress(&path, 0o644, 1_600_000_000 + len);
    }
    server.copy(&["tree/", "s3://data/in/t/"]);
}

/// Asserts that two files have the same bytes and the same time.
fn assert_same(one: &Path, other: &Path) {
    assert!(
        fs::read(one).unwrap() == fs::read(other).unwrap(),
        "{}",
        other.display()
    );
    let times = [one, other].map(|path| fs::metadata(path).unwrap().mtime());
    assert_eq!(times[0], times[1], "{}", other.display());
}

#[test]
fn tree_comes_through_a_daemon_from_the_store() {
    let Some(server) = Server::start("served-reads") else {
        return;
    };
    let lengths = [
        ("empty", 0),
        ("one", 1),
        ("größe", 70_000),
        ("part", 8 << 20),
        ("more", (8 << 20) + 1),
        ("more-a/x", 9),
        ("more.d/y", 10),
        ("inner/large", LARGE),
    ];
    store_tree(&server, &lengths);
    let daemon = Daemon::start(&server, &server.address, &["--read-only"]);
    for protocol in ["rbudp", "sabul-swift", "tcp"] {
        let place = format!("back-{protocol}/");
        let args = ["HOST/store/t/", place.as_str()];
        let down = daemon.copy(protocol, &args).assert_succeeded();
        let down = down.event("summary");
        assert_eq!(down["verified"], true, "{down}");
        for (name, _) in lengths {
            let at = |folder: &str| server.scratch.at(&format!("{folder}/{name}"));
            assert_same(&at("tree"), &at(&place));
        }
        let again = daemon.copy(protocol, &args).assert_succeeded();
        let again = again.event("summary");
        assert_eq!(
            (&again["unchanged"], &again["bytes_moved"]),
            (&down["entries"], &0.into()),
            "{again}"
        );
    }
    assert!(names(&server.scratch.at("spool")).is_empty());
    assert!(
        names(&server.scratch.at("root")).is_empty(),
        "nothing is on the host of the daemon"
    );
    // another object, and one that is gone
    server.write("extra", "extra");
    server.copy(&["extra", "s3://data/in/t/inner/"]);
    server
        .run(&["rm", "s3://data/in/t/more-a/x"])
        .assert_succeeded();
    let args = ["--delete", "--yes", "HOST/store/t/", "back-tcp/"];
    daemon.copy("tcp", &args).assert_succeeded();
    assert_eq!(server.read("back-tcp/inner/extra"), "extra");
    assert!(!server.scratch.at("back-tcp/more-a/x").exists());
    assert!(server.scratch.at("back-tcp/one").exists());
}

#[test]
fn names_of_objects_land_as_in_other_copies() {
    let Some(server) = Server::start("served-reads-names") else {
        return;
    };
    store_tree(&server, &[("f", 5), ("d/x", 6), ("d/y", 7)]);
    let daemon = Daemon::start(&server, &server.address, &[]);
    server.scratch.folder("into");
    for (args, files) in [
        (&["HOST/store/t/f", "new"][..], &["new"][..]),
        (&["HOST/store/t/f", "into"], &["into/f"]),
        (&["HOST/store/t/d", "a"], &["a/d/x", "a/d/y"]),
        (&["-T", "HOST/store/t/d", "b"], &["b/x", "b/y"]),
        (&["HOST/store/t/d/", "c"], &["c/x", "c/y"]),
        (&["HOST/store", "e"], &["e/store/t/f", "e/store/t/d/x"]),
        (&["HOST/store/", "g"], &["g/t/f"]),
        (
            &["HOST/store/t/f", "HOST/store/t/d", "several"],
            &["several/f", "several/d/y"],
        ),
        (&["--exclude", "x", "HOST/store/t/", "h"], &["h/f", "h/d/y"]),
        (&["--exclude", "d", "HOST/store/t/", "i"], &["i/f"]),
    ] {
        daemon.copy("", args).assert_succeeded();
        for file in files {
            assert!(server.scratch.at(file).is_file(), "{args:?} {file}");
        }
    }
    assert_eq!(names(&server.scratch.at("h/d")), ["y"]);
    assert_eq!(names(&server.scratch.at("i")), ["f"]);
    for place in ["HOST/store/t/none", "HOST/store/t/none/", "HOST/store/t/f/"] {
        for delete in [&[][..], &["--delete", "--yes"]] {
            let args = [delete, &[place, "h"]].concat();
            daemon
                .copy("", &args)
                .assert_failed(3, "there is no such object");
        }
    }
    assert!(server.scratch.at("h/f").is_file());
    daemon
        .copy("", &["HOST/store/t/f", "HOST/other", "n"])
        .assert_failed(1, "name its objects in a command of their own");
    for options in [
        &["-a"][..],
        &["--remove-source-files"],
        &["--hash", "sha256"],
    ] {
        let args = [options, &["HOST/store/t/", "n"]].concat();
        daemon
            .copy("", &args)
            .assert_failed(1, "does not apply to object stores");
    }
    assert!(!server.scratch.at("n").exists());
    drop(daemon);
    // a client with a right to one prefix
    fs::remove_file(server.scratch.at("allowed")).unwrap();
    let daemon = Daemon::start(&server, &server.address, &["--root", "store/t/d"]);
    daemon.copy("", &["HOST/x", "mine"]).assert_succeeded();
    assert!(server.scratch.at("mine").is_file());
    for place in ["HOST/../f", "HOST/store/t/f", "HOST/t/f"] {
        let outcome = daemon.copy("", &[place, "other"]);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    }
    assert!(!server.scratch.at("other").exists());
}

#[test]
fn passing_faults_of_a_store_are_retried() {
    let Some(server) = Server::start("served-reads-passing") else {
        return;
    };
    store_tree(&server, &[("large", LARGE), ("small", 100_000)]);
    let answer =
        |status, code: &str| Fault::Answer(status, format!("<Error><Code>{code}</Code></Error>"));
    let proxy = Proxy::start(&server.address, move |head, nth| match nth {
        0 if head.contains("list-type=2") && head.contains("in%2Ft%2F") => answer(503, "SlowDown"),
        0 if head.starts_with("HEAD /data/in/t/small") => answer(500, ""),
        0 if head.starts_with("GET /data/in/t/small") => answer(500, "InternalError"),
        0 if head.contains("bytes=0-") => answer(503, "SlowDown"),
        _ if head.contains("bytes=8388608-") => Fault::Reset(3_000_000),
        1 if head.starts_with("GET /data/in/t/large") => Fault::Reset(0),
        _ => Fault::Pass,
    });
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    daemon
        .copy("rbudp", &["HOST/store/t/", "back/"])
        .assert_succeeded();
    for name in ["large", "small"] {
        let at = |folder: &str| server.scratch.at(&format!("{folder}/{name}"));
        assert_same(&at("tree"), &at("back"));
    }
    assert_eq!(
        proxy.count("bytes=8388608-"),
        1,
        "only the rest comes again"
    );
}

/// Returns an answer with another `ETag`.
fn other_version(mut answer: Vec<u8>) -> Vec<u8> {
    let tag = answer
        .windows(7)
        .position(|part| part.eq_ignore_ascii_case(b"etag: \""));
    answer[tag.unwrap() + 7] ^= 1;
    answer
}

#[test]
fn object_that_changes_is_reported_and_never_mixed() {
    let Some(server) = Server::start("served-reads-changed") else {
        return;
    };
    store_tree(&server, &[("large", LARGE), ("other", 9_000_000)]);
    // it is written between the list and the first read
    let scratch = server.scratch.at("store/data/in/t/large");
    let replacing = Proxy::start(&server.address, move |head, _| {
        if head.starts_with("GET /data/in/t/large") {
            return Fault::Change(other_version);
        }
        Fault::Pass
    });
    let daemon = Daemon::start(&server, &replacing.address, &[]);
    let outcome = daemon.copy("", &["HOST/store/t/", "back/"]);
    assert_eq!(outcome.code, Some(24), "{outcome:?}");
    assert!(
        outcome.said("/store/t/large: another program has changed it meanwhile"),
        "{outcome:?}"
    );
    assert_eq!(names(&server.scratch.at("back")), ["other"]);
    drop(daemon);
    // it is written in the middle
    let middle = Proxy::start(&server.address, |head, _| {
        if head.contains("bytes=25165824-") {
            return Fault::Change(other_version);
        }
        Fault::Pass
    });
    let daemon = Daemon::start(&server, &middle.address, &[]);
    let outcome = daemon.copy("tcp", &["HOST/store/t/large", "x"]);
    outcome.assert_failed(
        24,
        "/store/t/large: another program has changed it meanwhile",
    );
    assert!(!server.scratch.at("x").exists());
    drop(daemon);
    // it is removed in the middle
    let removing = Proxy::start(&server.address, move |head, _| {
        if head.contains("bytes=25165824-") {
            fs::remove_file(&scratch).ok();
        }
        Fault::Pass
    });
    let daemon = Daemon::start(&server, &removing.address, &[]);
    let outcome = daemon.copy("tcp", &["HOST/store/t/large", "x"]);
    assert!(
        outcome.said("/store/t/large: the store does not have it any more"),
        "{outcome:?}"
    );
    assert_ne!(outcome.code, Some(0));
    assert!(!server.scratch.at("x").exists());
}

#[test]
fn objects_that_cannot_be_read_are_named_one_by_one() {
    let Some(server) = Server::start("served-reads-denied") else {
        return;
    };
    let lengths = [
        ("denied", 9),
        ("flipped", LARGE),
        ("good", 10),
        ("gone", 11),
    ];
    store_tree(&server, &lengths);
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.starts_with("GET /data/in/t/denied") {
            return Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>".to_owned());
        }
        if head.starts_with("HEAD /data/in/t/gone") {
            return Fault::Answer(404, String::new());
        }
        if head.contains("GET /data/in/t/flipped") && head.contains("bytes=16777216-") {
            return Fault::Change(|mut answer| {
                let last = answer.len() - 1;
                answer[last] ^= 1;
                answer
            });
        }
        Fault::Pass
    });
    let mut daemon = Daemon::start(&server, &proxy.address, &[]);
    let outcome = daemon.copy("", &["HOST/store/t/", "back/"]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    for words in [
        "/store/t/denied: the store refuses it to the daemon",
        "/store/t/gone: the store does not have it any more",
        "/store/t/flipped: its bytes differ from their checksum at the store",
    ] {
        assert!(outcome.said(words), "{words}: {outcome:?}");
    }
    for hidden in ["AccessDenied", "s3://", "data/in", proxy.address.as_str()] {
        assert!(!outcome.said(hidden), "{hidden}: {outcome:?}");
    }
    let line = daemon.process.says("AccessDenied");
    assert!(line.contains("s3://data/in/t/denied"), "{line}");
    assert_eq!(names(&server.scratch.at("back")), ["good"]);
}

#[test]
fn store_that_vanishes_ends_the_copy() {
    let Some(server) = Server::start("served-reads-vanish") else {
        return;
    };
    store_tree(&server, &[("a", 10), ("b", 20 << 20), ("c", 30)]);
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = Arc::clone(&gone);
    let proxy = Proxy::start(&server.address, move |head, _| {
        is_gone.fetch_or(head.contains("bytes=16777216-"), Relaxed);
        if is_gone.load(Relaxed) {
            return Fault::Answer(404, "<Error><Code>NoSuchBucket</Code></Error>".to_owned());
        }
        Fault::Pass
    });
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    let outcome = daemon.copy("tcp", &["HOST/store/t/", "back/"]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.said("/store/t/b: the store does not have it any more"),
        "{outcome:?}"
    );
    assert!(!server.scratch.at("back/b").exists());
    // nothing is deleted if the list is not complete
    gone.store(true, Relaxed);
    server.write("back/mine", "mine");
    let args = ["--delete", "--yes", "HOST/store/t/", "back/"];
    let outcome = daemon.copy("tcp", &args);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(server.read("back/mine"), "mine");
}

#[test]
fn keys_that_are_no_names_are_left_out() {
    let Some(server) = Server::start("served-reads-keys") else {
        return;
    };
    store_tree(&server, &[("good", 7)]);
    let list = |keys: &[&str]| {
        let items = keys.iter().map(|key| {
            format!("<Contents><Key>in/t/{key}</Key><Size>7</Size><ETag>\"x\"</ETag></Contents>")
        });
        let items: String = items.collect();
        let text =
            format!("<ListBucketResult><IsTruncated>false</IsTruncated>{items}</ListBucketResult>");
        Fault::Answer(200, text)
    };
    let is_mixed = Arc::new(AtomicBool::new(false));
    let mixed = Arc::clone(&is_mixed);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if !head.contains("list-type=2") || head.contains("max-keys=1&") {
            return Fault::Pass;
        }
        if mixed.load(Relaxed) {
            return list(&["b/x", "good", "b/y"]);
        }
        list(&[
            "../../evil",
            "a//b",
            "good",
            "good/below",
            "x/",
            "y/../../z",
        ])
    });
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    let outcome = daemon.copy("", &["HOST/store/t/", "back/"]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    for words in [
        "/store/t/../../evil: its key has a part . or ..",
        "/store/t/a//b: its key has an empty part",
        "/store/t/good/below: an object has the name of its directory",
        "/store/t/x/: its key ends with a slash",
    ] {
        assert!(outcome.said(words), "{words}: {outcome:?}");
    }
    assert_eq!(names(&server.scratch.at("back")), ["good"]);
    is_mixed.store(true, Relaxed);
    let outcome = daemon.copy("", &["HOST/store/t/", "mixed/"]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.said("the daemon does not understand the store"),
        "{outcome:?}"
    );
}

#[test]
fn interrupted_copy_continues_with_the_missing_ranges() {
    let Some(server) = Server::start("served-reads-resume") else {
        return;
    };
    store_tree(&server, &[("large", LARGE)]);
    let proxy = Proxy::start(&server.address, |_, _| Fault::Pass);
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    for (signal, protocol, place) in [("KILL", "rbudp", "x/large"), ("INT", "tcp", "y/large")] {
        let folder = server.scratch.at(place);
        let folder = folder.parent().unwrap();
        fs::create_dir(folder).unwrap();
        let args = ["--limit", "60Mbit", "HOST/store/t/large", place];
        let client = daemon.start_copy(protocol, &args);
        becomes_true("two ranges are in the journal", || ranges(folder) >= 2);
        client.signal(signal);
        assert_ne!(client.finish().code, Some(0));
        assert!(!server.scratch.at(place).exists());
        let again = daemon.copy(protocol, &args[2..]).assert_succeeded();
        let again = again.event("summary");
        assert_same(&server.scratch.at("tree/large"), &server.scratch.at(place));
        let moved = again["bytes_moved"].as_u64().unwrap();
        assert!(moved <= LARGE - (8 << 20), "{signal}: {again}");
        assert_eq!(names(folder), ["large"]);
    }
}

/// Returns the number of ranges in the journals of a directory.
fn ranges(folder: &Path) -> u64 {
    let names = names(folder).into_iter();
    let journals = names.filter(|name| name.ends_with(".journal"));
    let sizes = journals.map(|name| fs::metadata(folder.join(name)).map_or(0, |meta| meta.len()));
    sizes.map(|len| len.saturating_sub(40) / 22).sum()
}

#[test]
fn object_is_read_in_parallel_and_within_bounds() {
    let Some(server) = Server::start("served-reads-parallel") else {
        return;
    };
    store_tree(&server, &[("large", LARGE)]);
    let gate = Arc::new(Gate::default());
    let gated = Arc::clone(&gate);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if head.starts_with("GET /data/in/t/large") {
            gated.pass();
        }
        Fault::Pass
    });
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    let client = daemon.start_copy("tcp", &["--streams", "1", "HOST/store/t/large", "x"]);
    becomes_true("requests run in parallel", || gate.now() >= 5);
    gate.open();
    client.finish().assert_succeeded();
    assert_same(&server.scratch.at("tree/large"), &server.scratch.at("x"));
    // one block of the lane, and four ahead of it
    assert_eq!(gate.most(), 5);
    assert_eq!(proxy.count("GET /data/in/t/large"), 8);
}

#[test]
fn answer_that_lies_about_its_range_is_refused() {
    let Some(server) = Server::start("served-reads-ranges") else {
        return;
    };
    store_tree(&server, &[("large", LARGE)]);
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("bytes=8388608-16777215") {
            return Fault::Change(|answer| {
                replaced(answer, "bytes 8388608-16777215/", "bytes 8388609-16777216/")
            });
        }
        Fault::Pass
    });
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    let outcome = daemon.copy("tcp", &["HOST/store/t/large", "x"]);
    assert_ne!(outcome.code, Some(0));
    assert!(outcome.said("does not understand the store"), "{outcome:?}");
    assert!(!server.scratch.at("x").exists());
}
