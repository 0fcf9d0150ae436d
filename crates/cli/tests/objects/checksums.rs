//! `--checksum` with objects as the source: the checksums that the store has decide, or else the bytes.

use std::fs;

use crate::proxy::{Fault, Proxy};
use crate::running::Running;
use crate::scratch::dress;
use crate::served_daemon::Daemon;
use crate::server::Server;

const CONTENT: &str = "123456789";
const OTHER: &str = "987654321";
/// SHA-256 of the content, in base64.
const SHA256: &str = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=";

/// Returns an answer without a header, of which only the name changes.
fn without(mut answer: Vec<u8>, name: &str) -> Vec<u8> {
    let at = answer
        .windows(name.len())
        .position(|part| part.eq_ignore_ascii_case(name.as_bytes()));
    if let Some(at) = at {
        answer[at..at + 2].copy_from_slice(b"y-");
    }
    answer
}

fn without_crc(answer: Vec<u8>) -> Vec<u8> {
    without(answer, "x-amz-checksum-crc64nvme")
}

fn with_sha256(answer: Vec<u8>) -> Vec<u8> {
    let mut answer = without_crc(answer);
    let at = answer.windows(2).position(|part| part == b"\r\n").unwrap();
    let header = format!("\r\nx-amz-checksum-sha256: {SHA256}");
    answer.splice(at..at, header.into_bytes());
    answer
}

fn without_any(answer: Vec<u8>) -> Vec<u8> {
    without(without_crc(answer), "etag: ")
}

/// Starts a proxy that changes answers about objects.
fn changing(server: &Server, change: fn(Vec<u8>) -> Vec<u8>) -> Proxy {
    Proxy::start(&server.address, move |head, _| {
        if head.starts_with("HEAD ") {
            return Fault::Change(change);
        }
        Fault::Pass
    })
}

/// Change of an answer of the server.
type ChangeAnswer = fn(Vec<u8>) -> Vec<u8>;

#[test]
fn checksum_of_the_store_decides_about_downloads() {
    let Some(server) = Server::start("checksums") else {
        return;
    };
    server.write("f", CONTENT);
    dress(&server.scratch.at("f"), 0o644, 1_600_000_000);
    server.copy(&["f", "s3://data/f"]);
    let kinds: [(ChangeAnswer, Option<&str>); 4] = [
        (|answer| answer, Some("CRC-64/NVME")),
        (with_sha256, Some("SHA-256")),
        (without_crc, Some("MD5")),
        (without_any, None),
    ];
    for (change, kind) in kinds {
        let proxy = changing(&server, change);
        for (content, word) in [(CONTENT, "same"), (OTHER, "different")] {
            server.write("back", content);
            dress(&server.scratch.at("back"), 0o644, 1_700_000_000);
            let args = ["cp", "-n=explain", "--checksum", "s3://data/f", "back"];
            let dry = Running::start(server.command_at(&proxy.address, &args));
            let dry = dry.finish().assert_succeeded();
            let said = dry.out.concat();
            let expected = match (kind, word) {
                (Some(kind), "same") => format!("the same {kind}"),
                (Some(kind), _) => format!("different {kind}"),
                (None, _) => "the store has no checksum of it".to_owned(),
            };
            assert!(said.contains(&expected), "{expected}: {said}");
            let args = ["cp", "--json", "--checksum", "s3://data/f", "back"];
            let copy = Running::start(server.command_at(&proxy.address, &args));
            let summary = copy.finish().assert_succeeded().event("summary");
            let is_kept = kind.is_some() && content == CONTENT;
            assert_eq!(summary["unchanged"] == 1, is_kept, "{kind:?} {summary}");
            assert_eq!(server.read("back"), CONTENT);
        }
    }
}

#[test]
fn served_objects_are_compared_by_the_checksum_of_the_store_or_their_bytes() {
    let Some(server) = Server::start("served-checksums") else {
        return;
    };
    for (name, content) in [("t/one", CONTENT), ("t/two", CONTENT), ("t/three", "3")] {
        server.write(name, content);
        dress(&server.scratch.at(name), 0o644, 1_600_000_000);
    }
    server.copy(&["t/", "s3://data/in/t/"]);
    // none of them is read if the store has checksums
    let changes: [(ChangeAnswer, usize); 2] = [(|answer| answer, 0), (without_any, 3)];
    for (change, reads) in changes {
        let proxy = changing(&server, change);
        let daemon = Daemon::start(&server, &proxy.address, &["--read-only"]);
        for (name, content) in [("one", CONTENT), ("two", OTHER)] {
            let path = format!("back-{reads}/{name}");
            server.write(&path, content);
            dress(&server.scratch.at(&path), 0o644, 1_600_000_000);
        }
        let place = format!("back-{reads}/");
        // size and time are the same
        let args = ["HOST/store/t/", place.as_str()];
        let plain = [&["-n", "--exclude", "three"], &args[..]].concat();
        let plain = daemon.copy("", &plain).assert_succeeded();
        assert_eq!(plain.event("summary")["unchanged"], 2, "{plain:?}");
        let before = proxy.count("GET /data/in/t/");
        let dry = [&["-n", "--checksum"], &args[..]].concat();
        daemon.copy("", &dry).assert_succeeded();
        assert_eq!(proxy.count("GET /data/in/t/") - before, reads);
        let copy = [&["--checksum"], &args[..]].concat();
        daemon.copy("", &copy).assert_succeeded();
        for name in ["one", "two", "three"] {
            let at = |folder: &str| server.scratch.at(&format!("{folder}/{name}"));
            assert_eq!(
                fs::read(at("t")).unwrap(),
                fs::read(at(&place)).unwrap(),
                "{name}"
            );
        }
        drop(daemon);
        fs::remove_file(server.scratch.at("allowed")).unwrap();
    }
}

#[test]
fn served_objects_that_a_list_names_are_copied() {
    let Some(server) = Server::start("served-files-from") else {
        return;
    };
    for name in ["a", "d/b", "d/c", "d/e/f", "g/h", "x"] {
        server.write(&format!("t/{name}"), name);
        dress(
            &server.scratch.at(&format!("t/{name}")),
            0o644,
            1_600_000_000,
        );
    }
    server.copy(&["t/", "s3://data/in/t/"]);
    let daemon = Daemon::start(&server, &server.address, &["--read-only"]);
    let all = |folder: &str| {
        let mut found = Vec::new();
        for name in ["a", "d/b", "d/c", "d/e/f", "g/h", "x"] {
            if server.scratch.at(&format!("{folder}/{name}")).is_file() {
                found.push(name);
            }
        }
        found
    };
    server.write("list", "a\nd/e/f\ng\n");
    let args = ["--files-from", "list", "HOST/store/t", "one"];
    daemon.copy("", &args).assert_succeeded();
    assert_eq!(all("one"), ["a", "d/e/f", "g/h"]);
    // a directory gets the time of its newest object
    let time = fs::metadata(server.scratch.at("one/d/e")).unwrap();
    let time = time
        .modified()
        .unwrap()
        .duration_since(std::time::UNIX_EPOCH);
    assert_eq!(time.unwrap().as_secs(), 1_600_000_000);
    let again = daemon.copy("", &args).assert_succeeded();
    assert_eq!(again.event("summary")["bytes_moved"], 0);
    // names that do not exist, or that no key can have, are reported
    server.write("list", "d/b\nnone\nd/.lighthaul-x\nd/c\n");
    let args = ["--files-from", "list", "HOST/store/t/", "two"];
    let outcome = daemon.copy("", &args);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert!(
        outcome.said("/store/t/none: the store does not have it any more"),
        "{outcome:?}"
    );
    assert!(!outcome.said("s3://"), "{outcome:?}");
    assert_eq!(all("two"), ["d/b", "d/c"]);
    let args = [
        "--files-from",
        "list",
        "HOST/store/t",
        "HOST/store/t/d",
        "n",
    ];
    daemon
        .copy("", &args)
        .assert_failed(1, "--files-from needs exactly one source");
}

#[test]
fn each_served_object_costs_one_request_for_its_attributes() {
    let Some(server) = Server::start("served-requests-of-reads") else {
        return;
    };
    for nth in 0..30 {
        server.write(&format!("t/d{}/{nth}", nth % 3), "content");
    }
    server.scratch.file("t/large", 20 << 20);
    server.copy(&["t/", "s3://data/in/t/"]);
    let proxy = Proxy::start(&server.address, |_, _| Fault::Pass);
    let daemon = Daemon::start(&server, &proxy.address, &["--read-only"]);
    for (protocol, place) in [("tcp", "one/"), ("rbudp", "two/")] {
        let before = ["HEAD ", "GET /data/in/t/"].map(|words| proxy.count(words));
        let copy = daemon.copy(protocol, &["HOST/store/t/", place]);
        assert_eq!(copy.assert_succeeded().event("summary")["verified"], true);
        assert_eq!(proxy.count("HEAD ") - before[0], 31, "{protocol}");
        // three blocks of the large object, and what was lost in the network
        let reads = proxy.count("GET /data/in/t/") - before[1];
        assert!(
            reads == 33 || protocol == "rbudp" && reads > 33,
            "{protocol} {reads}"
        );
        assert_eq!(
            fs::read(server.scratch.at(&format!("{place}large")))
                .unwrap()
                .len(),
            20 << 20
        );
    }
}
