//! Conditional requests whose answers are lost: they are sent again, and must not take their own object for that of
//! another program.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::proxy::{Fault, Proxy};
use crate::running::Running;
use crate::scratch::{dress, noise};
use crate::server::Server;
use crate::web::{Body, Site};

/// Size of a file of two parts.
const LARGE: u64 = (9 << 20) + 5;

/// A proxy that loses the first answer to each request that gives an object its name, and the number of lost ones.
fn losing(server: &Server) -> (Proxy, Arc<AtomicUsize>) {
    let lost = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lost);
    let proxy = Proxy::start(&server.address, move |head, nth| {
        if nth == 0 && names_object(head) {
            count.fetch_add(1, Relaxed);
            return Fault::Reset(0);
        }
        Fault::Pass
    });
    (proxy, lost)
}

/// Returns true for a request that gives an object its name.
fn names_object(head: &str) -> bool {
    let line = head.lines().next().unwrap_or_default();
    let is_part = line.contains("partNumber=");
    line.starts_with("PUT ") && !is_part || line.starts_with("POST ") && line.contains("uploadId=")
}

/// Runs a copy, and asserts that it has written this number of objects.
fn assert_written(command: Command, entries: u64) {
    let outcome = Running::start(command).finish().assert_succeeded();
    let summary = outcome.event("summary");
    let counts = (&summary["entries"], &summary["unchanged"]);
    assert_eq!(counts, (&entries.into(), &0.into()), "{outcome:?}");
}

/// Writes the files `t/small` and `t/large`.
fn write_tree(server: &Server) {
    server.scratch.folder("t");
    server.write("t/small", "small");
    server.scratch.file("t/large", LARGE);
}

fn is_equal(server: &Server, file: &str, key: &str) -> bool {
    fs::read(server.scratch.at(file)).unwrap() == fs::read(server.object(key)).unwrap()
}

#[test]
fn upload_does_not_overtake_itself() {
    let Some(server) = Server::start("lost-upload") else {
        return;
    };
    write_tree(&server);
    for (option, key) in [("--ignore-existing", "new"), ("--update", "old")] {
        if key == "old" {
            for name in ["small", "large"] {
                server.write("before", "before");
                dress(&server.scratch.at("before"), 0o644, 1_500_000_000);
                server.copy(&["before", &format!("s3://data/old/{name}")]);
            }
        }
        let (proxy, lost) = losing(&server);
        let place = format!("s3://data/{key}/");
        let args = ["cp", "--json", option, "t/", &place];
        assert_written(server.command_at(&proxy.address, &args), 2);
        assert_eq!(lost.load(Relaxed), 2, "{option}");
        for name in ["small", "large"] {
            let (file, key) = (format!("t/{name}"), format!("{key}/{name}"));
            assert!(is_equal(&server, &file, &key), "{option} {name}");
        }
    }
}

#[test]
fn upload_without_checksums_compares_the_bytes() {
    let Some(server) = Server::start("lost-plain") else {
        return;
    };
    write_tree(&server);
    let (proxy, lost) = losing(&server);
    let args = ["cp", "--json", "--ignore-existing", "t/small", "s3://data/"];
    let mut command = server.command_at(&proxy.address, &args);
    command.env("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required");
    assert_written(command, 1);
    assert_eq!(lost.load(Relaxed), 1);
}

#[test]
fn object_of_another_program_is_not_taken_for_an_own_one() {
    let Some(server) = Server::start("lost-foreign") else {
        return;
    };
    write_tree(&server);
    for file in ["small", "large"] {
        // of the same length and time, in the time between two attempts
        let foreign = server.scratch.at("foreign");
        fs::copy(server.scratch.at(&format!("t/{file}")), &foreign).unwrap();
        let mut bytes = fs::read(&foreign).unwrap();
        bytes[0] ^= 1;
        fs::write(&foreign, &bytes).unwrap();
        let seconds = 1_600_000_000;
        for path in ["foreign", &format!("t/{file}")] {
            dress(&server.scratch.at(path), 0o644, seconds);
        }
        let place = format!("s3://data/{file}");
        let mut write = server.command_at(&server.address, &["cp", "foreign", &place]);
        let writes = std::sync::Mutex::new(move || {
            assert!(write.status().unwrap().success());
        });
        let proxy = Proxy::start(&server.address, move |head, nth| {
            if nth == 0 && names_object(head) {
                writes.lock().unwrap()();
                return Fault::Answer(500, "<Error><Code>InternalError</Code></Error>".to_owned());
            }
            Fault::Pass
        });
        let path = format!("t/{file}");
        let args = ["cp", "--json", "--ignore-existing", &path, &place];
        let outcome = Running::start(server.command_at(&proxy.address, &args)).finish();
        let summary = outcome.assert_succeeded().event("summary");
        assert_eq!(summary["entries"], 0, "{file}: {summary}");
        assert!(is_equal(&server, "foreign", file), "{file}");
    }
}

#[test]
fn copy_within_a_store_does_not_overtake_itself() {
    let Some(server) = Server::start("lost-within") else {
        return;
    };
    write_tree(&server);
    server.copy(&["t/", "s3://data/from/"]);
    let lost = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lost);
    let proxy = Proxy::start(&server.address, move |head, nth| {
        if !head.starts_with("PUT ") {
            return Fault::Pass;
        }
        if nth == 0 {
            count.fetch_add(1, Relaxed);
            return Fault::Reset(0);
        }
        // this server ignores the condition of a copy
        let text = "<Error><Code>PreconditionFailed</Code></Error>";
        Fault::Answer(412, text.to_owned())
    });
    let args = [
        "cp",
        "--json",
        "--ignore-existing",
        "s3://data/from/",
        "s3://data/to/",
    ];
    assert_written(server.command_at(&proxy.address, &args), 2);
    assert_eq!(lost.load(Relaxed), 2);
    assert!(is_equal(&server, "t/large", "to/large"));
}

#[test]
fn copy_through_this_host_does_not_overtake_itself() {
    let Some(server) = Server::start("lost-through") else {
        return;
    };
    for (name, len) in [("small", 7), ("large", LARGE)] {
        let bytes = noise(len, 5);
        let site = Site::start(bytes.clone(), Body::Ranges("\"strong\""));
        let (proxy, lost) = losing(&server);
        let place = format!("s3://data/{name}");
        let args = ["cp", "--json", "--ignore-existing", &site.url(name), &place];
        assert_written(server.command_at(&proxy.address, &args), 1);
        assert_eq!(lost.load(Relaxed), 1, "{name}");
        assert!(fs::read(server.object(name)).unwrap() == bytes, "{name}");
    }
}
