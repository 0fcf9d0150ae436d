//! Uploads through a daemon that were interrupted: the next copy continues with the parts that the store has.

use std::fs;

use crate::proxy::{Fault, Proxy};
use crate::running::{Running, becomes_true};
use crate::scratch::names;
use crate::served_daemon::{Daemon, LARGE, has_parts};
use crate::server::Server;

/// Directory of the records of a daemon's uploads.
const RECORDS: &str = "home/.local/state/lighthaul/served-uploads";

/// Options of a copy that takes about five seconds, and is not tried again.
const SLOWLY: [&str; 4] = ["--retries", "0", "--limit", "100Mbit"];

/// Starts a copy of `large`, and waits until the store has some of its parts.
fn begun(daemon: &Daemon<'_>, protocol: &str, place: &str) -> Running {
    let args = [&SLOWLY[..], &["large", place]].concat();
    let client = daemon.start_copy(protocol, &args);
    becomes_true("three parts have arrived", || {
        stored_parts(daemon.server) >= 3
    });
    client
}

fn parts(proxy: &Proxy) -> usize {
    proxy.count("partNumber=")
}

/// Returns the number of complete parts that the store has.
fn stored_parts(server: &Server) -> usize {
    let mut folders = vec![server.scratch.at("store/data/.sgwtmp")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = item.file_name().into_string().unwrap();
            if item.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(item.path());
            } else if name.parse::<u32>().is_ok() {
                count += 1;
            }
        }
    }
    count
}

#[test]
fn interrupted_upload_continues_with_the_parts_of_the_store() {
    let Some(server) = Server::start("served-resume") else {
        return;
    };
    server.scratch.file("large", LARGE);
    let proxy = Proxy::start(&server.address, |_, _| Fault::Pass);
    let mut daemon = Daemon::start(&server, &proxy.address, &[]);
    for (protocol, end) in [
        ("rbudp", "KILL"),
        ("tcp", "INT"),
        ("tcp", "KILL daemon"),
        ("tcp", "TERM daemon"),
    ] {
        fs::remove_file(server.object("in/x")).ok();
        let uploads = proxy.count("?uploads");
        let client = begun(&daemon, protocol, "HOST/store/x");
        if let Some(signal) = end.strip_suffix(" daemon") {
            daemon.process.signal(signal);
            assert_ne!(client.finish().code, Some(0), "{end}");
            daemon.process.finish();
            fs::remove_file(server.scratch.at("allowed")).unwrap();
            daemon = Daemon::start(&server, &proxy.address, &[]);
        } else {
            client.signal(end);
            assert_ne!(client.finish().code, Some(0), "{end}");
        }
        assert_eq!(names(&server.scratch.at(RECORDS)).len(), 1);
        let before = parts(&proxy);
        let again = daemon.copy(protocol, &["large", "HOST/store/x"]);
        let again = again.assert_succeeded().event("summary");
        assert!(daemon.is_equal("large", "in/x"), "{end}");
        assert_eq!(again["verified"], true);
        assert!(parts(&proxy) - before <= 5, "{end}: three parts stay");
        assert!(
            again["bytes_moved"].as_u64().unwrap() <= LARGE - (24 << 20),
            "{end}: {again}"
        );
        assert_eq!(proxy.count("?uploads") - uploads, 1, "{end}");
        assert!(names(&server.scratch.at(RECORDS)).is_empty());
        assert!(!has_parts(&server));
    }
}

#[test]
fn parts_of_another_version_are_not_used() {
    let Some(server) = Server::start("served-resume-changed") else {
        return;
    };
    let file = server.scratch.file("large", LARGE);
    let proxy = Proxy::start(&server.address, |_, _| Fault::Pass);
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    begun(&daemon, "tcp", "HOST/store/x").kill();
    // the same size and time, and another byte in the first part
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[5] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let open = fs::File::options().write(true).open(&file).unwrap();
    open.set_modified(time).unwrap();
    let before = proxy.count("partNumber=1&");
    daemon
        .copy("tcp", &["large", "HOST/store/x"])
        .assert_succeeded();
    assert!(daemon.is_equal("large", "in/x"));
    assert_eq!(proxy.count("partNumber=1&"), before + 1);
    assert_eq!(proxy.count("partNumber=2&"), 1);
    assert_eq!(proxy.count("?uploads"), 1);
    // another time: nothing stays of the old version
    begun(&daemon, "tcp", "HOST/store/y").kill();
    server.scratch.file("large", LARGE - 1);
    daemon
        .copy("tcp", &["large", "HOST/store/y"])
        .assert_succeeded();
    assert!(daemon.is_equal("large", "in/y"));
    assert_eq!(proxy.count("?uploads"), 3);
    becomes_true("the old parts are removed", || !has_parts(&server));
}

#[test]
fn abandoned_upload_is_given_up_after_its_time() {
    let Some(server) = Server::start("served-resume-abandoned") else {
        return;
    };
    server.scratch.file("large", LARGE);
    let proxy = Proxy::start(&server.address, |_, _| Fault::Pass);
    let options: (&[&str], &[&str]) = (&[], &["--upload-keep", "1s"]);
    let daemon = Daemon::start_with(&server, &proxy.address, options);
    begun(&daemon, "tcp", "HOST/store/x").kill();
    becomes_true("the parts are removed", || !has_parts(&server));
    assert_eq!(proxy.count("DELETE /data/in/x?uploadId"), 1);
    becomes_true("the record is removed", || {
        names(&server.scratch.at(RECORDS)).is_empty()
    });
    daemon
        .copy("tcp", &["large", "HOST/store/x"])
        .assert_succeeded();
    assert!(daemon.is_equal("large", "in/x"));
}
