//! Copies from one store to another through this host that are cut off: the next one continues, or nothing is left.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::credentials::bare;
use crate::proxy::{Fault, Proxy};
use crate::resume::parts;
use crate::running::{Running, becomes_true};
use crate::scratch::{names, noise};
use crate::server::{KEYS, Server};
use crate::web::{Body, Site};

/// Size of an object of eight parts.
const LARGE: u64 = (60 << 20) + 5;
/// Directory of records, below the scratch directory.
const RECORDS: &str = "home/.local/state/lighthaul/uploads";

/// A proxy that answers no request for two of the parts while the switch is on, and its switch.
fn hanging(server: &Server) -> (Proxy, Arc<AtomicBool>) {
    let hangs = Arc::new(AtomicBool::new(true));
    let hung = Arc::clone(&hangs);
    let proxy = Proxy::start(&server.address, move |head, _| {
        let is_held = head.contains("partNumber=4&") || head.contains("partNumber=7&");
        if hung.load(Relaxed) && is_held {
            return Fault::Hang;
        }
        Fault::Pass
    });
    (proxy, hangs)
}

#[test]
fn cut_off_relay_is_resumed() {
    let Some(server) = Server::start("relay-resume") else {
        return;
    };
    let bytes = noise(LARGE, 11);
    for (end, body, name) in [
        ("KILL", Body::Ranges("\"strong\""), "killed"),
        ("INT", Body::Ranges("\"strong\""), "interrupted"),
        ("KILL", Body::Whole, "streamed"),
    ] {
        let site = Site::start(bytes.clone(), body);
        let (proxy, hangs) = hanging(&server);
        let (url, place) = (site.url(name), format!("s3://data/{name}"));
        let args = ["cp", "--json", &url, &place];
        let first = Running::start(server.command_at(&proxy.address, &args));
        becomes_true("six parts have arrived", || parts(&server) >= 6);
        first.signal(end);
        assert_ne!(first.finish().code, Some(0), "{name}");
        hangs.store(false, Relaxed);
        let before = proxy.count("partNumber=");
        let again = Running::start(server.command_at(&proxy.address, &args));
        let summary = again.finish().assert_succeeded().event("summary");
        assert_eq!(proxy.count("partNumber=") - before, 2, "{name}");
        let begun = format!("POST /data/{name}?uploads");
        assert_eq!(proxy.count(&begun), 1, "{name}");
        assert_eq!(summary["bytes_moved"], 16 << 20, "{name}: {summary}");
        assert!(fs::read(server.object(name)).unwrap() == bytes, "{name}");
        assert!(names(&server.scratch.at(RECORDS)).is_empty(), "{name}");
        assert_eq!(parts(&server), 0, "{name}");
    }
}

#[test]
fn relay_of_another_version_begins_anew() {
    let Some(server) = Server::start("relay-changed") else {
        return;
    };
    let (proxy, hangs) = hanging(&server);
    let old = Site::start(noise(LARGE, 1), Body::Ranges("\"old\""));
    let args = ["cp", &old.url("x"), "s3://data/x"];
    let mut first = Running::start(server.command_at(&proxy.address, &args));
    becomes_true("six parts have arrived", || parts(&server) >= 6);
    first.kill();
    hangs.store(false, Relaxed);
    let bytes = noise(LARGE, 2);
    let new = Site::start(bytes.clone(), Body::Ranges("\"new\""));
    let args = ["cp", &new.url("x"), "s3://data/x"];
    let again = Running::start(server.command_at(&proxy.address, &args));
    again.finish().assert_succeeded();
    assert_eq!(proxy.count("POST /data/x?uploads"), 2);
    assert!(fs::read(server.object("x")).unwrap() == bytes);
    assert_eq!(parts(&server), 0);
}

#[test]
fn failed_relay_leaves_no_upload() {
    let Some(server) = Server::start("relay-failed") else {
        return;
    };
    let site = Site::start(noise(LARGE, 3), Body::Ranges("\"strong\""));
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("partNumber=5&") {
            return Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>".to_owned());
        }
        Fault::Pass
    });
    let args = ["cp", &site.url("x"), "s3://data/x"];
    let failed = Running::start(server.command_at(&proxy.address, &args));
    failed.finish().assert_failed(13, "AccessDenied");
    assert_eq!(parts(&server), 0);
    assert!(names(&server.scratch.at(RECORDS)).is_empty());
}

#[test]
fn relay_is_resumed_after_its_login_is_renewed() {
    let Some(server) = Server::start("relay-login") else {
        return;
    };
    let [key, secret] = KEYS;
    let printed = format!("{{\"AccessKeyId\":\"{key}\",\"SecretAccessKey\":\"{secret}\"}}");
    let program = format!("test -e login || exit 3; echo '{printed}'");
    let config = format!("[default]\ncredential_process = {program}\n");
    server.write("home/.aws/config", &config);
    server.write("login", "");
    let login = server.scratch.at("login");
    let proxy = Proxy::start(&server.address, move |head, _| {
        if head.contains("partNumber=8&") {
            fs::remove_file(&login).ok();
        }
        if login.exists() {
            return Fault::Pass;
        }
        Fault::Answer(400, "<Error><Code>ExpiredToken</Code></Error>".to_owned())
    });
    let bytes = noise(LARGE, 6);
    let site = Site::start(bytes.clone(), Body::Ranges("\"strong\""));
    let args = ["cp", &site.url("x"), "s3://data/x"];
    let failed = Running::start(bare(&server, &proxy.address, &args)).finish();
    failed.assert_failed(13, "have expired");
    assert!(parts(&server) > 0);
    server.write("login", "");
    let again = Running::start(bare(&server, &server.address, &args));
    again.finish().assert_succeeded();
    assert!(fs::read(server.object("x")).unwrap() == bytes);
    assert_eq!(parts(&server), 0, "the first upload was continued");
    assert!(names(&server.scratch.at(RECORDS)).is_empty());
}

#[test]
fn failed_relay_whose_upload_cannot_be_given_up_is_resumed() {
    let Some(server) = Server::start("relay-kept") else {
        return;
    };
    let bytes = noise(LARGE, 7);
    let site = Site::start(bytes.clone(), Body::Ranges("\"strong\""));
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("partNumber=8&") || head.starts_with("DELETE ") {
            return Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>".to_owned());
        }
        Fault::Pass
    });
    let args = ["cp", &site.url("x"), "s3://data/x"];
    let failed = Running::start(server.command_at(&proxy.address, &args));
    failed.finish().assert_failed(13, "AccessDenied");
    assert_eq!(names(&server.scratch.at(RECORDS)).len(), 1);
    let again = Running::start(server.command_at(&server.address, &args));
    again.finish().assert_succeeded();
    assert!(fs::read(server.object("x")).unwrap() == bytes);
    assert_eq!(parts(&server), 0, "the first upload was continued");
    assert!(names(&server.scratch.at(RECORDS)).is_empty());
}

/// A proxy that takes uploads as Google does, with these answers to parts and to ends of uploads.
fn google(server: &Server, part: fn() -> Fault, end: fn(nth: usize) -> Fault) -> Proxy {
    let begun = "<InitiateMultipartUploadResult><Bucket>data</Bucket><Key>x</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>";
    Proxy::start(&server.address, move |head, nth| {
        let line = head.lines().next().unwrap_or_default();
        if line.contains("partNumber=") {
            part()
        } else if line.starts_with("POST ") && line.contains("?uploads") {
            Fault::Answer(200, begun.to_owned())
        } else if line.starts_with("DELETE ") {
            end(nth)
        } else if line.contains("list-type=2") {
            Fault::Answer(200, "<ListBucketResult></ListBucketResult>".to_owned())
        } else {
            Fault::Answer(404, String::new())
        }
    })
}

/// Interrupts a copy to Google of a file here, and of one of a web server, after a request with these words. Asserts the
/// number of requests that end its upload.
fn assert_given_up(server: &Server, start: impl Fn() -> Proxy, (words, ends): (&str, usize)) {
    let site = Site::start(noise(LARGE, 4), Body::Ranges("\"strong\""));
    server.scratch.file("large", LARGE);
    let url = site.url("x");
    for source in [url.as_str(), "large"] {
        let google = start();
        let mut command: Command =
            server.command_at(&server.address, &["cp", source, "gs://data/x"]);
        command.env("STORAGE_EMULATOR_HOST", &google.address);
        let running = Running::start(command);
        becomes_true("the request is sent", || google.count(words) > 0);
        running.signal("INT");
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(20), "{outcome:?}");
        assert_eq!(google.count("DELETE "), ends, "{source}");
    }
}

/// Google and others have no uploads that a later run can continue.
#[test]
fn interrupted_copy_to_google_gives_its_uploads_up() {
    let Some(server) = Server::start("relay-google") else {
        return;
    };
    let start = || google(&server, || Fault::Hang, |_| ended());
    assert_given_up(&server, start, ("partNumber=", 1));
}

#[test]
fn copy_to_google_that_is_interrupted_while_it_gives_up_does_so_again() {
    let Some(server) = Server::start("relay-google-again") else {
        return;
    };
    let refused = || Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>".to_owned());
    let end = |nth| if nth == 0 { Fault::Hang } else { ended() };
    let start = || google(&server, refused, end);
    assert_given_up(&server, start, ("DELETE ", 2));
}

/// Answer to the end of an upload.
fn ended() -> Fault {
    Fault::Answer(204, String::new())
}
