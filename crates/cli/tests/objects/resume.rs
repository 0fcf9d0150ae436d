//! Copies that were killed: the next one sends or fetches only the rest.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::proxy::{Fault, Proxy};
use crate::running::{Running, becomes_true};
use crate::scratch::names;
use crate::server::Server;

/// Size of a file of eight parts.
const LARGE: u64 = (60 << 20) + 5;

#[test]
fn killed_upload_is_resumed() {
    let Some(server) = Server::start("resume-up") else {
        return;
    };
    let file = server.scratch.file("large", LARGE);
    let hangs = Arc::new(AtomicBool::new(true));
    let hung = Arc::clone(&hangs);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if hung.load(Relaxed) && (head.contains("partNumber=4&") || head.contains("partNumber=7&"))
        {
            return Fault::Hang;
        }
        Fault::Pass
    });
    let args = ["cp", "large", "s3://data/"];
    let mut first = Running::start(server.command_at(&proxy.address, &args));
    becomes_true("six parts have arrived", || parts(&server) >= 6);
    first.kill();
    hangs.store(false, Relaxed);
    let before = proxy.count("partNumber=");
    Running::start(server.command_at(&proxy.address, &args))
        .finish()
        .assert_succeeded();
    assert_eq!(proxy.count("partNumber=") - before, 2);
    assert_eq!(proxy.count("POST /data/large?uploads"), 1);
    server.copy(&["s3://data/large", "back"]);
    assert!(fs::read(server.scratch.at("back")).unwrap() == fs::read(&file).unwrap());
    assert!(names(&server.scratch.at("home/.local/state/lighthaul/uploads")).is_empty());
}

#[test]
fn upload_whose_parts_cannot_be_listed_begins_anew() {
    let Some(server) = Server::start("resume-unlisted") else {
        return;
    };
    server.scratch.file("large", LARGE);
    let hangs = Arc::new(AtomicBool::new(true));
    let hung = Arc::clone(&hangs);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if head.contains("max-parts=") {
            return Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>".to_owned());
        }
        if hung.load(Relaxed) && head.contains("partNumber=8&") {
            return Fault::Hang;
        }
        Fault::Pass
    });
    let args = ["cp", "large", "s3://data/"];
    let mut first = Running::start(server.command_at(&proxy.address, &args));
    becomes_true("seven parts have arrived", || parts(&server) >= 7);
    first.kill();
    hangs.store(false, Relaxed);
    Running::start(server.command_at(&proxy.address, &args))
        .finish()
        .assert_succeeded();
    assert_eq!(proxy.count("POST /data/large?uploads"), 2);
    assert_eq!(parts(&server), 0);
}

#[test]
fn upload_of_a_changed_file_begins_anew() {
    let Some(server) = Server::start("resume-changed") else {
        return;
    };
    server.scratch.file("large", LARGE);
    let hangs = Arc::new(AtomicBool::new(true));
    let hung = Arc::clone(&hangs);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if hung.load(Relaxed) && head.contains("partNumber=8&") {
            return Fault::Hang;
        }
        Fault::Pass
    });
    let args = ["cp", "large", "s3://data/"];
    let mut first = Running::start(server.command_at(&proxy.address, &args));
    becomes_true("seven parts have arrived", || parts(&server) >= 7);
    first.kill();
    hangs.store(false, Relaxed);
    fs::remove_file(server.scratch.at("large")).unwrap();
    server.scratch.file("large", LARGE + 1);
    Running::start(server.command_at(&proxy.address, &args))
        .finish()
        .assert_succeeded();
    assert_eq!(proxy.count("POST /data/large?uploads"), 2);
    assert_eq!(proxy.count("DELETE /data/large?uploadId"), 1);
    server.copy(&["s3://data/large", "back"]);
    assert_eq!(
        fs::metadata(server.scratch.at("back")).unwrap().len(),
        LARGE + 1
    );
}

#[test]
fn killed_download_is_resumed_unless_the_object_changed() {
    let Some(server) = Server::start("resume-down") else {
        return;
    };
    let file = server.scratch.file("large", LARGE);
    server.copy(&["large", "s3://data/"]);
    let hangs = Arc::new(AtomicBool::new(true));
    let hung = Arc::clone(&hangs);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if hung.load(Relaxed) && head.contains("bytes=50331648-") {
            return Fault::Hang;
        }
        Fault::Pass
    });
    let args = ["cp", "s3://data/large", "d/"];
    let kill = || {
        let mut first = Running::start(server.command_at(&proxy.address, &args));
        becomes_true("seven ranges have arrived", || records(&server) >= 7);
        first.kill();
    };
    kill();
    assert!(!server.scratch.at("d/large").exists());
    hangs.store(false, Relaxed);
    let before = proxy.count("bytes=");
    Running::start(server.command_at(&proxy.address, &args))
        .finish()
        .assert_succeeded();
    assert_eq!(proxy.count("bytes=") - before, 1);
    assert!(fs::read(server.scratch.at("d/large")).unwrap() == fs::read(&file).unwrap());
    assert_eq!(names(&server.scratch.at("d")), ["large"]);
    // the same with another object under the key
    fs::remove_file(server.scratch.at("d/large")).unwrap();
    hangs.store(true, Relaxed);
    kill();
    hangs.store(false, Relaxed);
    server.scratch.file("other", LARGE);
    fs::write(server.scratch.at("other"), vec![7; LARGE as usize]).unwrap();
    server.copy(&["other", "s3://data/large"]);
    let before = proxy.count("bytes=");
    Running::start(server.command_at(&proxy.address, &args))
        .finish()
        .assert_succeeded();
    assert_eq!(proxy.count("bytes=") - before, 8);
    assert!(
        fs::read(server.scratch.at("d/large"))
            .unwrap()
            .iter()
            .all(|byte| *byte == 7)
    );
}

#[test]
fn interrupted_copy_names_the_command_that_resumes() {
    let Some(server) = Server::start("interrupted") else {
        return;
    };
    server.scratch.file("large", LARGE);
    server.copy(&["large", "s3://data/"]);
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("bytes=50331648-") {
            return Fault::Hang;
        }
        Fault::Pass
    });
    let running =
        Running::start(server.command_at(&proxy.address, &["cp", "s3://data/large", "d/"]));
    becomes_true("seven ranges have arrived", || records(&server) >= 7);
    running.signal("INT");
    running.finish().assert_failed(20, "this command resumes");
    assert!(!server.scratch.at("d/large").exists());
}

/// Returns the number of parts of unfinished uploads at the server.
pub(crate) fn parts(server: &Server) -> usize {
    let mut folders = vec![server.scratch.at("store/data/.sgwtmp")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).into_iter().flatten().flatten() {
            if item.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(item.path());
            } else if item
                .file_name()
                .to_string_lossy()
                .bytes()
                .all(|octet| octet.is_ascii_digit())
            {
                count += 1;
            }
        }
    }
    count
}

/// Returns the number of ranges in the journal of a download to `d`.
fn records(server: &Server) -> usize {
    let folder = server.scratch.at("d");
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut journals =
        found.filter(|item| item.file_name().to_string_lossy().ends_with(".journal"));
    let text = journals
        .next()
        .and_then(|item| fs::read_to_string(item.path()).ok());
    text.map_or(0, |text| text.lines().count().saturating_sub(1))
}
