//! The word "verified": only for bytes whose checksum both sides have compared.

use std::fs;

use serde_json::Value;

use crate::proxy::{Fault, Proxy, replaced};
use crate::running::{Outcome, Running};
use crate::server::Server;
use crate::web::{Body, Site};

const LARGE: u64 = (9 << 20) + 5;

fn is_verified(outcome: Outcome) -> Value {
    outcome.assert_succeeded().event("summary")["verified"].clone()
}

/// Renames the header or element of the checksum in an answer.
fn without_checksum(answer: Vec<u8>) -> Vec<u8> {
    let has = |name: &str| {
        answer
            .windows(name.len())
            .any(|part| part.eq_ignore_ascii_case(name.as_bytes()))
    };
    let (header, element) = (has("x-amz-checksum-crc64nvme"), has("<ChecksumCRC64NVME>"));
    let mut answer = answer;
    if header {
        answer = replaced(
            answer,
            "x-amz-checksum-crc64nvme",
            "x-amz-checksum-missing__",
        );
    }
    if element {
        answer = replaced(answer, "<ChecksumCRC64NVME>", "<ChecksumMissing__>");
        answer = replaced(answer, "</ChecksumCRC64NVME>", "</ChecksumMissing__>");
    }
    answer
}

#[test]
fn copy_without_checksums_is_not_called_verified() {
    let Some(server) = Server::start("verified") else {
        return;
    };
    server.scratch.folder("store/other");
    server.write("small", "small");
    server.scratch.file("large", LARGE);
    let run = |args: &[&str]| server.run(&[&["cp", "--json"], args].concat());
    for name in ["small", "large"] {
        let place = format!("s3://data/{name}");
        assert_eq!(is_verified(run(&[name, &place])), true, "up: {name}");
        assert_eq!(is_verified(run(&[&place, "d/"])), true, "down: {name}");
        let other = format!("s3://other/{name}");
        assert_eq!(is_verified(run(&[&place, &other])), true, "copy: {name}");
        // the settings of the store disable checksums
        let args = ["cp", "--json", name, "s3://data/none/"];
        let mut command = server.command_at(&server.address, &args);
        command.env("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required");
        let outcome = Running::start(command).finish();
        assert_eq!(is_verified(outcome), false, "when_required: {name}");
        // an object without a checksum in the store
        let plain = format!("plain-{name}");
        fs::copy(server.scratch.at(name), server.object(&plain)).unwrap();
        let plain = format!("s3://data/{plain}");
        let outcome = run(&[&plain, "d/"]);
        let warned = |outcome: &Outcome| {
            let mut events = outcome.events().into_iter();
            events.any(|event| {
                event["type"] == "warning" && event["text"].to_string().contains("checksums")
            })
        };
        assert!(warned(&outcome), "{outcome:?}");
        assert_eq!(is_verified(outcome), false, "down without: {name}");
        let outcome = run(&[&plain, "s3://other/plain/"]);
        assert!(warned(&outcome), "{outcome:?}");
        assert_eq!(is_verified(outcome), false, "copy without: {name}");
    }
    let site = Site::start(b"web".to_vec(), Body::Ranges("\"e\""));
    assert_eq!(is_verified(run(&[&site.url("w"), "s3://data/w"])), false);
    let text = server.run(&["cp", "s3://data/plain-small", "e/"]);
    assert!(text.said("only lengths compared"), "{text:?}");
}

#[test]
fn store_that_ignores_checksums_is_found_out() {
    let Some(server) = Server::start("ignores") else {
        return;
    };
    server.write("small", "small");
    server.scratch.file("large", LARGE);
    let silent = Proxy::start(&server.address, |head, _| match head {
        head if head.starts_with("GET ") => Fault::Pass,
        _ => Fault::Change(without_checksum),
    });
    for name in ["small", "large"] {
        let args = ["cp", "--json", name, "s3://data/"];
        let outcome = Running::start(server.command_at(&silent.address, &args)).finish();
        assert_eq!(is_verified(outcome), false, "{name}");
    }
    // an object whose checksum differs from that of its parts
    let lying = Proxy::start(&server.address, |head, _| {
        if head.starts_with("POST /data/lie?uploadId") {
            return Fault::Change(|answer| {
                let at = answer
                    .windows(19)
                    .position(|part| part == b"<ChecksumCRC64NVME>");
                let at = at.expect("the server tells the checksum") + 19;
                let mut answer = answer;
                answer[at] = if answer[at] == b'A' { b'B' } else { b'A' };
                answer
            });
        }
        Fault::Pass
    });
    let args = ["cp", "large", "s3://data/lie"];
    let outcome = Running::start(server.command_at(&lying.address, &args)).finish();
    outcome.assert_failed(12, "other bytes than were sent");
}
