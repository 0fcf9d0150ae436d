//! A daemon before an object store: copies arrive by its protocols, and go to the store part by part.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::proxy::{Fault, Proxy};
use crate::running::becomes_true;
use crate::scratch::{dress, names};
use crate::served_daemon::{Daemon, LARGE, has_parts};
use crate::server::Server;

#[test]
fn tree_goes_through_a_daemon_to_the_store() {
    let Some(server) = Server::start("served") else {
        return;
    };
    let daemon = Daemon::start(&server, &server.address, &[]);
    let scratch = &server.scratch;
    scratch.folder("tree/inner");
    let lengths = [
        ("empty", 0),
        ("one", 1),
        ("größe", 70_000),
        ("part", 8 << 20),
        ("more", (8 << 20) + 1),
        ("inner/large", LARGE),
    ];
    for (name, len) in lengths {
        scratch.file(&format!("tree/{name}"), len);
        dress(
            &scratch.at(&format!("tree/{name}")),
            0o644,
            1_600_000_000 + len,
        );
    }
    for protocol in ["rbudp", "sabul-swift", "tcp"] {
        let place = format!("HOST/store/{protocol}/");
        let up = daemon.copy(protocol, &["tree/", &place]).assert_succeeded();
        let up = up.event("summary");
        assert_eq!(
            (&up["unchanged"], &up["verified"]),
            (&1.into(), &true.into()),
            "{up}"
        );
        for (name, _) in lengths {
            let key = format!("in/{protocol}/{name}");
            assert!(
                daemon.is_equal(&format!("tree/{name}"), &key),
                "{protocol} {name}"
            );
        }
        let again = daemon.copy(protocol, &["tree/", &place]).assert_succeeded();
        let again = again.event("summary");
        assert_eq!(
            (&again["entries"], &again["unchanged"]),
            (&up["entries"], &up["entries"])
        );
        assert_eq!(again["bytes_moved"], 0);
    }
    // the store has the times of the files
    server.copy(&["s3://data/in/tcp/", "back/"]);
    let again = server
        .copy(&["tree/", "s3://data/in/tcp/"])
        .event("summary");
    assert_eq!(again["unchanged"], 6);
    assert!(!has_parts(&server) && names(&scratch.at("spool")).is_empty());
    assert!(
        names(&scratch.at("root")).is_empty(),
        "nothing is on the host of the daemon"
    );
    let dry = daemon
        .copy("tcp", &["-n", "tree/", "HOST/store/dry/"])
        .assert_succeeded();
    assert_eq!(dry.event("summary")["entries"], 7);
    assert!(!server.object("in/dry").exists());
}

#[test]
fn names_land_as_in_other_copies() {
    let Some(server) = Server::start("served-names") else {
        return;
    };
    let daemon = Daemon::start(&server, &server.address, &[]);
    server.write("f", "file");
    server.write("dir/x", "x");
    for args in [
        &["f", "HOST/store/new"][..],
        &["f", "HOST/store/into/"],
        &["f", "HOST/store"],
        &["dir", "HOST/store/p"],
        &["-T", "dir", "HOST/store/q"],
        &["dir/", "HOST/store/r"],
        &["f", "dir", "HOST/store/several"],
        // a prefix with objects is a directory
        &["f", "HOST/store/p"],
    ] {
        daemon.copy("", args).assert_succeeded();
    }
    let expected = [
        "in/f",
        "in/into/f",
        "in/new",
        "in/p/dir/x",
        "in/p/f",
        "in/q/x",
        "in/r/x",
        "in/several/dir/x",
        "in/several/f",
    ];
    let mut keys = server.keys();
    keys.sort();
    assert_eq!(keys, expected);
    // later versions replace, unless the options forbid it
    server.write("f", "newer");
    daemon
        .copy("", &["--ignore-existing", "f", "HOST/store/new"])
        .assert_succeeded();
    assert_eq!(fs::read_to_string(server.object("in/new")).unwrap(), "file");
    daemon.copy("", &["f", "HOST/store/new"]).assert_succeeded();
    assert_eq!(
        fs::read_to_string(server.object("in/new")).unwrap(),
        "newer"
    );
}

#[test]
fn what_a_store_cannot_have_is_refused() {
    let Some(server) = Server::start("served-refused") else {
        return;
    };
    let daemon = Daemon::start(&server, &server.address, &[]);
    server.write("tree/f", "file");
    symlink("f", server.scratch.at("tree/link")).unwrap();
    let outcome = daemon.copy("", &["tree/", "HOST/store/t/"]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert!(outcome.said("no symbolic links"), "{outcome:?}");
    assert_eq!(server.keys(), ["in/t/f"]);
    for options in [
        &["-a"][..],
        &["--delete", "--yes"],
        &["--inplace"],
        &["--checksum"],
        &["--sparse"],
        &["--digest", "blake3"],
    ] {
        let args = [options, &["tree/", "HOST/store/t/"]].concat();
        daemon
            .copy("", &args)
            .assert_failed(1, "does not apply to object stores");
    }
    fs::write(server.scratch.at("tree/a\u{1}b"), "x").unwrap();
    let outcome = daemon.copy("", &["tree/a\u{1}b", "HOST/store/"]);
    assert!(outcome.said("control characters"), "{outcome:?}");
    for bad in [
        "store",
        "/=s3://data",
        "a/b=s3://data",
        "store=gs://data",
        "x=lh://h/x",
        "x=s3://none",
    ] {
        let args = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--root",
            "root",
            "--allowed",
            "allowed",
        ];
        let args = [&args[..], &["--key", "host-key", "--store", bad]].concat();
        let outcome = server.run(&args);
        assert_ne!(outcome.code, Some(0), "{bad}");
    }
}

#[test]
fn client_without_the_right_does_not_reach_the_store() {
    let Some(server) = Server::start("served-rights") else {
        return;
    };
    server.write("f", "file");
    server.scratch.folder("root/alice");
    let daemon = Daemon::start(&server, &server.address, &["--root", "alice"]);
    let outcome = daemon.copy("", &["f", "HOST/store/x"]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    let outcome = daemon.copy("", &["f", "HOST/../store/x"]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(server.keys().is_empty());
    drop(daemon);
    fs::remove_file(server.scratch.at("allowed")).unwrap();
    let daemon = Daemon::start(&server, &server.address, &["--read-only"]);
    daemon
        .copy("", &["f", "HOST/store/x"])
        .assert_failed(13, "may only read");
    assert!(server.keys().is_empty());
}

#[test]
fn store_that_fails_or_lies_publishes_nothing() {
    let Some(server) = Server::start("served-faults") else {
        return;
    };
    server.scratch.file("large", LARGE);
    server.write("small", "small");
    // passing faults
    let faults = AtomicUsize::new(0);
    let passing = Proxy::start(&server.address, move |head, _| {
        let nth = faults.fetch_add(usize::from(head.contains("partNumber=")), Relaxed);
        match nth {
            1 if head.contains("partNumber=") => {
                Fault::Answer(503, "<Error><Code>SlowDown</Code></Error>".to_owned())
            }
            3 if head.contains("partNumber=") => Fault::Reset(10),
            _ => Fault::Pass,
        }
    });
    let daemon = Daemon::start(&server, &passing.address, &[]);
    daemon
        .copy("rbudp", &["large", "HOST/store/a"])
        .assert_succeeded();
    assert!(daemon.is_equal("large", "in/a"));
    drop(daemon);
    let lying = Proxy::start(&server.address, |head, _| {
        if head.starts_with("PUT /data/in/denied") {
            return Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>".to_owned());
        }
        if head.contains("partNumber=3&") && head.contains("/in/part") {
            return Fault::Answer(400, "<Error><Code>BadDigest</Code></Error>".to_owned());
        }
        Fault::Pass
    });
    let mut daemon = Daemon::start(&server, &lying.address, &[]);
    let address = lying.address.as_str();
    for (source, key, told, logged) in [
        (
            "small",
            "denied",
            "the store refuses it to the daemon",
            "AccessDenied",
        ),
        (
            "large",
            "part",
            "the store has received other bytes",
            "BadDigest",
        ),
    ] {
        let place = format!("HOST/store/{key}");
        let outcome = daemon.copy("", &[source, &place]);
        assert_ne!(outcome.code, Some(0));
        assert!(outcome.said(told), "{outcome:?}");
        assert!(outcome.said(&format!("/store/{key}")), "{outcome:?}");
        // what only the daemon knows is in its log
        for hidden in [logged, "s3://", "data/in", address] {
            assert!(!outcome.said(hidden), "{hidden}: {outcome:?}");
        }
        let line = daemon.process.says(logged);
        assert!(line.contains(&format!("s3://data/in/{key}")), "{line}");
    }
    assert!(!server.object("in/part").exists());
    becomes_true("the parts are removed", || !has_parts(&server));
    // the daemon continues
    daemon
        .copy("", &["small", "HOST/store/small"])
        .assert_succeeded();
    assert!(daemon.is_equal("small", "in/small"));
}

#[test]
fn interrupted_copy_leaves_no_object() {
    let Some(server) = Server::start("served-killed") else {
        return;
    };
    server.scratch.file("large", LARGE);
    let hangs = Arc::new(AtomicBool::new(true));
    let hung = Arc::clone(&hangs);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if hung.load(Relaxed) && head.contains("partNumber=7&") {
            return Fault::Hang;
        }
        Fault::Pass
    });
    let options: (&[&str], &[&str]) = (&[], &["--upload-keep", "0"]);
    let mut daemon = Daemon::start_with(&server, &proxy.address, options);
    // so that it has not sent all when it is killed: the daemon would wait for the store to publish the object
    let args = ["--rate", "100Mb/s", "large", "HOST/store/x"];
    let mut client = daemon.start_copy("rbudp", &args);
    becomes_true("parts have arrived", || proxy.count("partNumber=") >= 6);
    client.kill();
    becomes_true("the parts are removed", || !has_parts(&server));
    assert!(!server.object("in/x").exists());
    hangs.store(false, Relaxed);
    daemon
        .copy("rbudp", &["large", "HOST/store/x"])
        .assert_succeeded();
    assert!(daemon.is_equal("large", "in/x"));
    // the daemon is killed
    hangs.store(true, Relaxed);
    let before = proxy.count("partNumber=");
    let args = ["--retries", "0", "large", "HOST/store/y"];
    let client = daemon.start_copy("rbudp", &args);
    becomes_true("parts have arrived", || {
        proxy.count("partNumber=") >= before + 6
    });
    daemon.process.kill();
    assert_ne!(client.finish().code, Some(0));
    assert!(!server.object("in/y").exists());
    assert!(names(&server.scratch.at("spool")).is_empty());
}
