//! Conditions of copies to a served store: no writer replaces what another one has written meanwhile.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::gate::Gate;
use crate::proxy::{Fault, Proxy};
use crate::running::{Outcome, becomes_true};
use crate::scratch::dress;
use crate::served_daemon::{Daemon, LARGE, has_parts};
use crate::server::Server;

/// Copies `file` to `key` with these options. Calls `meanwhile` just before the object would get its name.
fn overtaken(
    server: &Server,
    (file, key): (&str, &str),
    options: &[&str],
    meanwhile: impl FnOnce(),
) -> Outcome {
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let path = format!("/data/in/{key}");
    let proxy = Proxy::start(&server.address, move |head, _| {
        let is_put = head.starts_with(&format!("PUT {path} "));
        let completes = head.starts_with(&format!("POST {path}?uploadId="));
        if is_put || completes {
            held.pass();
        }
        Fault::Pass
    });
    let daemon = Daemon::start(server, &proxy.address, &[]);
    let place = format!("HOST/store/{key}");
    let client = daemon.start_copy("tcp", &[options, &[file, &place]].concat());
    becomes_true("the last request is on its way", || gate.now() == 1);
    meanwhile();
    gate.open();
    client.finish()
}

fn stored(server: &Server, key: &str) -> String {
    let path = server.object(&format!("in/{key}"));
    fs::read(path).map_or_else(
        |_| "nothing".to_owned(),
        |bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(9)]).into_owned(),
    )
}

#[test]
fn no_writer_replaces_the_object_of_another() {
    let Some(server) = Server::start("served-writers") else {
        return;
    };
    server.write("small", "small");
    server.scratch.file("large", LARGE);
    server.write("other", "of others");
    for file in ["small", "large"] {
        // the object appears, or changes
        for key in ["new", "old"].map(|name| format!("{file}-{name}")) {
            let place = format!("s3://data/in/{key}");
            if key.ends_with("old") {
                server.write("before", "before");
                server.copy(&["before", &place]);
            }
            let write = || {
                server.copy(&["other", &place]);
            };
            let outcome = overtaken(&server, (file, &key), &[], write);
            assert_ne!(outcome.code, Some(0), "{key}: {outcome:?}");
            assert!(
                outcome.said("another program has written or removed it"),
                "{key}: {outcome:?}"
            );
            assert_eq!(stored(&server, &key), "of others", "{key}");
        }
        // the object is removed
        let key = format!("{file}-gone");
        let place = format!("s3://data/in/{key}");
        server.copy(&["other", &place]);
        let remove = || {
            server.run(&["rm", &place]).assert_succeeded();
        };
        let outcome = overtaken(&server, (file, &key), &["--existing"], remove);
        assert_ne!(outcome.code, Some(0), "{key}: {outcome:?}");
        assert_eq!(stored(&server, &key), "nothing", "{key}");
    }
    becomes_true("the parts are removed", || !has_parts(&server));
}

#[test]
fn options_about_existing_files_hold_until_the_object_has_its_name() {
    let Some(server) = Server::start("served-options") else {
        return;
    };
    server.write("small", "small");
    server.scratch.file("large", LARGE);
    server.write("other", "of others");
    for file in ["small", "large"] {
        for option in ["--update", "--ignore-existing"] {
            let key = format!("{file}{option}");
            let place = format!("s3://data/in/{key}");
            let write = || {
                server.copy(&["other", &place]);
            };
            let outcome = overtaken(&server, (file, &key), &[option], write);
            let summary = outcome.assert_succeeded().event("summary");
            assert_eq!(summary["unchanged"], 1, "{key}: {summary}");
            assert_eq!(stored(&server, &key), "of others", "{key}");
        }
    }
}

#[test]
fn objects_are_compared_as_files_of_a_directory() {
    let Some(server) = Server::start("served-compared") else {
        return;
    };
    server.write("tree/a", "newer");
    server.write("tree/b", "b");
    for name in ["a", "b"] {
        dress(
            &server.scratch.at(&format!("tree/{name}")),
            0o644,
            1_600_000_000,
        );
    }
    let daemon = Daemon::start(&server, &server.address, &[]);
    server.write("old", "older");
    dress(&server.scratch.at("old"), 0o644, 1_700_000_000);
    server.copy(&["old", "s3://data/in/t/a"]);
    let copy = |options: &[&str]| {
        let args = [options, &["tree/", "HOST/store/t/"]].concat();
        daemon.copy("", &args).assert_succeeded();
        [stored(&server, "t/a"), stored(&server, "t/b")]
    };
    assert_eq!(copy(&["--update", "--existing"]), ["older", "nothing"]);
    assert_eq!(copy(&["--update"]), ["older", "b"]);
    assert_eq!(copy(&["--ignore-existing"]), ["older", "b"]);
    server.write("tree/b", "changed");
    assert_eq!(copy(&["--existing"]), ["newer", "changed"]);
    // an object of another program, of the same size and not older
    fs::write(server.object("in/t/foreign"), "equal").unwrap();
    server.write("tree/foreign", "other");
    dress(&server.scratch.at("tree/foreign"), 0o644, 1_600_000_000);
    assert_eq!(copy(&[]), ["newer", "changed"]);
    assert_eq!(stored(&server, "t/foreign"), "equal");
}

#[test]
fn request_whose_answer_is_lost_does_not_overtake_itself() {
    let Some(server) = Server::start("served-lost") else {
        return;
    };
    server.write("small", "small");
    server.scratch.file("large", LARGE);
    let lost = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lost);
    let proxy = Proxy::start(&server.address, move |head, nth| {
        let is_put = head.starts_with("PUT /data/in/small ");
        let completes = head.starts_with("POST /data/in/large?uploadId=");
        if nth == 0 && (is_put || completes) {
            count.fetch_add(1, Relaxed);
            return Fault::Reset(0);
        }
        Fault::Pass
    });
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    for name in ["small", "large"] {
        let place = format!("HOST/store/{name}");
        daemon.copy("", &[name, &place]).assert_succeeded();
        assert!(daemon.is_equal(name, &format!("in/{name}")));
    }
    assert_eq!(lost.load(Relaxed), 2);
}

#[test]
fn one_page_of_a_large_store_is_listed_before_an_upload() {
    let Some(server) = Server::start("served-pages") else {
        return;
    };
    server.write("f", "file");
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("max-keys=1000&") {
            let text = "<ListBucketResult><IsTruncated>true</IsTruncated>\
                        <NextContinuationToken>more</NextContinuationToken>\
                        <Contents><Key>in/many/a</Key><Size>1</Size></Contents></ListBucketResult>";
            return Fault::Answer(200, text.to_owned());
        }
        Fault::Pass
    });
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    daemon
        .copy("", &["f", "HOST/store/many/"])
        .assert_succeeded();
    assert!(daemon.is_equal("f", "in/many/f"));
    assert_eq!(proxy.count("max-keys=1000&"), 1);
    assert_eq!(proxy.count("continuation-token="), 0);
}
