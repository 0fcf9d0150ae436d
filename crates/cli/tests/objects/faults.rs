//! Stores and networks that fail: errors, resets, changed objects, answers that make no sense.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::proxy::{Fault, Proxy, replaced};
use crate::running::{Outcome, Running};
use crate::scratch::names;
use crate::server::Server;

const LARGE: u64 = (20 << 20) + 5;

/// A server with a large object `large`, which is also a file.
fn with_large(name: &str) -> Option<Server> {
    let server = Server::start(name)?;
    server.scratch.file("large", LARGE);
    server.copy(&["large", "s3://data/"]);
    Some(server)
}

fn run(server: &Server, proxy: &Proxy, args: &[&str]) -> Outcome {
    Running::start(server.command_at(&proxy.address, args)).finish()
}

fn is_equal(server: &Server, one: &str, other: &str) -> bool {
    let read = |path: &str| fs::read(server.scratch.at(path)).unwrap();
    read(one) == read(other)
}

/// Asserts that nothing has the name `x`, and that no temporary file is left.
fn assert_nothing(server: &Server) {
    let found = names(&server.scratch.at(""));
    assert!(
        !found
            .iter()
            .any(|name| name == "x" || name.contains(".lighthaul")),
        "{found:?}"
    );
}

#[test]
fn passing_errors_and_resets_are_retried() {
    let Some(server) = with_large("retries") else {
        return;
    };
    let proxy = Proxy::start(&server.address, |head, nth| match nth {
        0 if head.contains("bytes=0-") => {
            Fault::Answer(500, "<Error><Code>InternalError</Code></Error>".to_owned())
        }
        1 if head.contains("bytes=8388608-") => {
            Fault::Answer(503, "<Error><Code>SlowDown</Code></Error>".to_owned())
        }
        2 if head.contains("GET ") => Fault::Reset(100_000),
        0 if head.contains("partNumber=2") => {
            Fault::Answer(503, "<Error><Code>SlowDown</Code></Error>".to_owned())
        }
        0 if head.contains("partNumber=1") => Fault::Reset(10),
        0 if head.starts_with("PUT /data/small") => Fault::Reset(0),
        _ => Fault::Pass,
    });
    run(&server, &proxy, &["cp", "s3://data/large", "x"]).assert_succeeded();
    assert!(is_equal(&server, "large", "x"));
    server.write("small", "small");
    run(&server, &proxy, &["cp", "large", "small", "s3://data/up/"]).assert_succeeded();
    run(&server, &proxy, &["cp", "large", "small", "s3://data/"]).assert_succeeded();
    server.copy(&["s3://data/up/", "back"]);
    assert!(is_equal(&server, "large", "back/large") && server.read("back/small") == "small");
    assert!(proxy.count("partNumber=2") >= 2 && proxy.count("partNumber=1&") >= 2);
}

#[test]
fn range_that_breaks_in_the_middle_continues_where_it_broke() {
    let Some(server) = with_large("middle") else {
        return;
    };
    // after some of the body, in two requests
    let breaks = AtomicUsize::new(0);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if head.contains("-16777215\r\n") && breaks.fetch_add(1, Relaxed) < 2 {
            return Fault::Reset(3_000_000);
        }
        Fault::Pass
    });
    let args = ["cp", "--json", "s3://data/large", "x"];
    let summary = run(&server, &proxy, &args)
        .assert_succeeded()
        .event("summary");
    assert!(is_equal(&server, "large", "x"));
    assert_eq!(summary["bytes_moved"], LARGE);
    assert_eq!(
        proxy.count("bytes=8388608-"),
        1,
        "only the rest comes again"
    );
    assert_eq!(proxy.count("-16777215\r\n"), 3);
    // an object that is read in one request
    server.scratch.file("small", 5_000_000);
    server.copy(&["small", "s3://data/"]);
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("GET /data/small") && !head.contains("range:") {
            return Fault::Reset(3_000_000);
        }
        Fault::Pass
    });
    let args = ["cp", "--json", "s3://data/small", "y"];
    let summary = run(&server, &proxy, &args)
        .assert_succeeded()
        .event("summary");
    assert!(is_equal(&server, "small", "y"));
    assert_eq!(summary["bytes_moved"], 5_000_000);
    assert_eq!(summary["verified"], true);
    assert_eq!(proxy.count("GET /data/small"), 2);
}

#[test]
fn object_that_changes_between_two_halves_of_a_range_is_not_mixed() {
    let Some(server) = with_large("halves") else {
        return;
    };
    // the second half of the range comes from another version
    let proxy = Proxy::start(&server.address, |head, _| match head {
        head if head.contains("bytes=8388608-") => Fault::Reset(3_000_000),
        head if head.contains("-16777215\r\n") => Fault::Change(|answer| {
            let mut answer = answer;
            let tag = answer
                .windows(7)
                .position(|part| part.eq_ignore_ascii_case(b"etag: \""));
            answer[tag.unwrap() + 7] ^= 1;
            answer
        }),
        _ => Fault::Pass,
    });
    let outcome = run(&server, &proxy, &["cp", "s3://data/large", "x"]);
    outcome.assert_failed(24, "changed meanwhile");
    assert!(!server.scratch.at("x").exists());
}

#[test]
fn store_that_stays_busy_or_silent_ends_the_copy() {
    let Some(server) = with_large("busy") else {
        return;
    };
    let busy = Proxy::start(&server.address, |_, _| {
        Fault::Answer(503, "<Error><Code>SlowDown</Code></Error>".to_owned())
    });
    let outcome = run(
        &server,
        &busy,
        &["cp", "--retries", "2", "s3://data/large", "x"],
    );
    outcome.assert_failed(10, "answers 503");
    assert_eq!(busy.count("HEAD "), 3);
    let silent = Proxy::start(&server.address, |_, _| Fault::Hang);
    let args = [
        "cp",
        "--retries",
        "1",
        "--stall-timeout",
        "1s",
        "s3://data/large",
        "x",
    ];
    run(&server, &silent, &args).assert_failed(10, "no answer within 1 s");
    run(
        &server,
        &silent,
        &[
            "cp",
            "--retries",
            "0",
            "--stall-timeout",
            "1s",
            "large",
            "s3://data/y",
        ],
    )
    .assert_failed(10, "no answer within 1 s");
    assert_nothing(&server);
}

#[test]
fn object_that_changes_is_never_mixed() {
    let Some(server) = with_large("changed") else {
        return;
    };
    // the ranges come with another ETag than the attributes
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.starts_with("HEAD /data/large") {
            return Fault::Change(|answer| {
                let at = answer
                    .windows(7)
                    .position(|part| part.eq_ignore_ascii_case(b"etag: \""))
                    .unwrap();
                let mut answer = answer;
                answer[at + 7] ^= 1;
                answer
            });
        }
        Fault::Pass
    });
    let outcome = run(&server, &proxy, &["cp", "s3://data/large", "x"]);
    outcome.assert_failed(24, "changed meanwhile");
    assert!(!server.scratch.at("x").exists());
}

#[test]
fn server_that_ignores_the_condition_of_a_read_is_found_out() {
    let Some(server) = with_large("ignored-condition") else {
        return;
    };
    // each range comes from another version, with status 206
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("bytes=8388608-") {
            return Fault::Change(|answer| {
                let mut answer = answer;
                let at = answer
                    .windows(7)
                    .position(|part| part.eq_ignore_ascii_case(b"etag: \""))
                    .unwrap();
                answer[at + 7] ^= 1;
                answer
            });
        }
        Fault::Pass
    });
    let outcome = run(&server, &proxy, &["cp", "s3://data/large", "x"]);
    outcome.assert_failed(24, "changed meanwhile");
    assert!(!server.scratch.at("x").exists());
}

#[test]
fn answers_with_other_bytes_are_not_published() {
    let Some(server) = with_large("other-bytes") else {
        return;
    };
    // another range than was asked for
    let ranges = Proxy::start(&server.address, |head, _| {
        if head.contains("bytes=8388608-16777215") {
            return Fault::Change(|answer| {
                replaced(answer, "bytes 8388608-16777215/", "bytes 8388609-16777216/")
            });
        }
        Fault::Pass
    });
    run(&server, &ranges, &["cp", "s3://data/large", "x"])
        .assert_failed(2, "sends the range bytes 8388609");
    fs::remove_dir_all(server.scratch.at("store/data/.sgwtmp")).ok();
    for path in names(&server.scratch.at("")) {
        if path.starts_with(".lighthaul") {
            fs::remove_file(server.scratch.at(&path)).unwrap();
        }
    }
    // a flipped bit
    let flipped = Proxy::start(&server.address, |head, _| {
        if head.contains("bytes=0-") {
            return Fault::Change(|mut answer| {
                let last = answer.len() - 1;
                answer[last] ^= 1;
                answer
            });
        }
        Fault::Pass
    });
    run(&server, &flipped, &["cp", "s3://data/large", "x"])
        .assert_failed(12, "differ from the checksum");
    assert_nothing(&server);
    // a length that the list does not have
    server.write("small", "12345");
    server.copy(&["small", "s3://data/p/"]);
    let lying = Proxy::start(&server.address, |head, _| {
        if head.contains("list-type=2") {
            return Fault::Change(|answer| replaced(answer, "<Size>5<", "<Size>4<"));
        }
        Fault::Pass
    });
    let outcome = run(&server, &lying, &["cp", "s3://data/p", "d"]);
    outcome.assert_failed(2, "more than the 4 bytes");
    assert!(
        names(&server.scratch.at("d")).is_empty() || names(&server.scratch.at("d/p")).is_empty()
    );
}

#[test]
fn list_without_an_end_is_refused() {
    let Some(server) = with_large("endless") else {
        return;
    };
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("list-type=2") {
            return Fault::Answer(
                200,
                "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>\
                 <Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>"
                    .to_owned(),
            );
        }
        Fault::Pass
    });
    for args in [
        &["cp", "s3://data/", "d"][..],
        &["cp", "-T", "home", "s3://data/"],
        &["rm", "-r", "s3://data/"],
        &["du", "s3://data/"],
    ] {
        let outcome = run(&server, &proxy, args);
        assert_ne!(outcome.code, Some(0));
        assert!(outcome.said("without an end"), "{args:?}: {outcome:?}");
    }
    let broken = Proxy::start(&server.address, |head, _| {
        if head.contains("list-type=2") {
            return Fault::Answer(200, "<html>welcome</html>".to_owned());
        }
        Fault::Pass
    });
    run(&server, &broken, &["cp", "s3://data/", "d"]).assert_failed(2, "is it an S3 server?");
}

#[test]
fn list_in_a_circle_of_several_pages_is_refused() {
    let Some(server) = Server::start("circle") else {
        return;
    };
    let page = |key: &str, next: &str| {
        let text = format!(
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>\
             <Contents><Key>{key}</Key><Size>1</Size></Contents></ListBucketResult>"
        );
        Fault::Answer(200, text)
    };
    let proxy = Proxy::start(&server.address, move |head, _| match head {
        head if head.contains("continuation-token=c") => page("c", "d"),
        head if head.contains("continuation-token=d") => page("d", "e"),
        head if head.contains("continuation-token=e") => page("e", "c"),
        head if head.contains("list-type=2") => page("b", "c"),
        _ => Fault::Pass,
    });
    let outcome = run(&server, &proxy, &["du", "s3://data/"]);
    assert_ne!(outcome.code, Some(0));
    assert!(outcome.said("without an end"), "{outcome:?}");
}

#[test]
fn authorities_that_cannot_be_read_are_an_error() {
    let Some(server) = Server::start("authorities") else {
        return;
    };
    server.write("f", "x");
    server.write("wrong.pem", "no certificate");
    for name in ["missing.pem", "wrong.pem"] {
        for place in ["s3://data/x", "az://data/x"] {
            let mut command = server.command_at(&server.address, &["cp", "f", place]);
            command.env("AWS_CA_BUNDLE", name);
            command.env("AZURE_STORAGE_USE_EMULATOR", "true");
            let outcome = Running::start(command).finish();
            outcome.assert_failed(1, &format!("AWS_CA_BUNDLE {name}"));
        }
    }
}

#[test]
fn bucket_that_vanishes_fails_the_rest() {
    let Some(server) = with_large("vanish") else {
        return;
    };
    for name in ["a", "b", "c"] {
        server.write(&format!("t/{name}"), name);
    }
    server.copy(&["t/", "s3://data/t/"]);
    let gone = || Fault::Answer(404, "<Error><Code>NoSuchBucket</Code></Error>".to_owned());
    let proxy = Proxy::start(&server.address, move |head, _| match head {
        head if head.contains("GET /data/t/a") || head.contains("list-type=2") => Fault::Pass,
        head if head.contains("/data/t/") => gone(),
        _ => Fault::Pass,
    });
    let outcome = run(&server, &proxy, &["cp", "s3://data/t/", "d"]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert_eq!(names(&server.scratch.at("d")), ["a"]);
}

#[test]
fn full_disk_is_reported_and_leaves_no_file() {
    if lighthaul_testkit::lacks_root("full disk") {
        return;
    }
    let Some(server) = with_large("full") else {
        return;
    };
    let small = server.scratch.folder("small");
    let mount = |args: &[&str]| {
        let status = std::process::Command::new(args[0])
            .args(&args[1..])
            .arg(&small)
            .status();
        assert!(status.unwrap().success());
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs"]);
    let outcome = server.run(&["cp", "s3://data/large", "small/x"]);
    let left = small.join("x").exists();
    mount(&["umount"]);
    outcome.assert_failed(11, "the disk is full");
    assert!(!left);
}

#[test]
fn slow_upload_is_no_silence() {
    let Some(server) = with_large("slow-upload") else {
        return;
    };
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("partNumber=3&") {
            // longer than two stall timeouts
            return Fault::Late(Duration::from_secs(2));
        }
        Fault::Pass
    });
    let args = [
        "cp",
        "--retries",
        "2",
        "--stall-timeout",
        "800ms",
        "large",
        "s3://data/slow",
    ];
    run(&server, &proxy, &args).assert_succeeded();
    assert_eq!(proxy.count("partNumber=3&"), 1);
}

#[test]
fn retries_count_from_the_last_progress() {
    let Some(server) = with_large("progress") else {
        return;
    };
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.starts_with("GET /data/large") {
            return Fault::Change(|mut answer| {
                answer.truncate(3_000_000);
                answer
            });
        }
        Fault::Pass
    });
    let args = ["cp", "--retries", "1", "s3://data/large", "x"];
    run(&server, &proxy, &args).assert_succeeded();
    assert!(proxy.count("GET /data/large") > 2);
}
