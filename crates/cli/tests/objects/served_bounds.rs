//! Limits of a daemon before an object store: requests at a time, and space on disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use crate::gate::Gate;
use crate::proxy::{Fault, Proxy};
use crate::running::becomes_true;
use crate::scratch::names;
use crate::served_daemon::{Daemon, LARGE};
use crate::server::Server;

#[test]
fn all_clients_together_send_at_most_64_requests_at_a_time() {
    let Some(server) = Server::start("served-requests") else {
        return;
    };
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if head.starts_with("PUT ") {
            held.pass();
        }
        Fault::Pass
    });
    for nth in 0..120 {
        server.write(&format!("tree/{nth}"), "x");
    }
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    let clients = ["a", "b"].map(|name| {
        let place = format!("HOST/store/{name}/");
        daemon.start_copy("tcp", &["tree/", &place])
    });
    becomes_true("64 requests are in work", || gate.now() >= 64);
    gate.open();
    for client in clients {
        client.finish().assert_succeeded();
    }
    assert_eq!(gate.most(), 64);
    assert_eq!(server.keys().len(), 240);
}

/// Returns the space on disk that the spools of a process have, in bytes.
fn spooled(daemon: &Daemon<'_>) -> u64 {
    let files = fs::read_dir(format!("/proc/{}/fd", daemon.process.id())).unwrap();
    let spool = daemon.server.scratch.at("spool");
    let spools = files.flatten().filter_map(|item| {
        let target = fs::read_link(item.path()).ok()?;
        let meta = fs::metadata(item.path()).ok()?;
        target.starts_with(&spool).then(|| meta.blocks() * 512)
    });
    spools.sum()
}

#[test]
fn spool_stays_below_its_limit_while_the_store_hangs() {
    let Some(server) = Server::start("served-spool") else {
        return;
    };
    let gate = Arc::new(Gate::default());
    let held = Arc::clone(&gate);
    let proxy = Proxy::start(&server.address, move |head, _| {
        if head.contains("partNumber=") {
            held.pass();
        }
        Fault::Pass
    });
    server.scratch.file("large", LARGE);
    let options = ["--spool-max", "16MiB"];
    let daemon = Daemon::start_with(&server, &proxy.address, (&[], &options));
    let clients = ["a", "b", "c", "d"].map(|name| {
        let place = format!("HOST/store/{name}");
        daemon.start_copy("tcp", &["large", &place])
    });
    // the memory for complete parts is full
    becomes_true("16 parts are in work", || gate.now() >= 16);
    becomes_true("the spool is in use", || spooled(&daemon) >= 8 << 20);
    let mut most = 0;
    for _ in 0..100 {
        most = most.max(spooled(&daemon));
        std::thread::yield_now();
    }
    assert!(most <= 16 << 20, "{most}");
    gate.open();
    for client in clients {
        client.finish().assert_succeeded();
    }
    for name in ["a", "b", "c", "d"] {
        assert!(daemon.is_equal("large", &format!("in/{name}")));
    }
    becomes_true("the spool is free", || spooled(&daemon) == 0);
    let args = [
        "serve",
        "--root",
        "root",
        "--store",
        "x=s3://data",
        "--spool-max",
        "1MiB",
    ];
    server.run(&args).assert_failed(1, "at least 16.00 MiB");
}

#[test]
fn failed_uploads_leave_nothing_in_the_spool() {
    let Some(server) = Server::start("served-spool-free") else {
        return;
    };
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("partNumber=2&") {
            return Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>".to_owned());
        }
        Fault::Pass
    });
    server.scratch.file("large", LARGE);
    fs::create_dir_all(server.scratch.at("spool")).unwrap();
    fs::write(server.scratch.at("spool/.lighthaul-spool-1"), "left").unwrap();
    let mut daemon = Daemon::start(&server, &proxy.address, &[]);
    assert!(names(&server.scratch.at("spool")).is_empty());
    for protocol in ["rbudp", "tcp"] {
        let outcome = daemon.copy(protocol, &["large", "HOST/store/x"]);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        becomes_true("the spool is free", || spooled(&daemon) == 0);
    }
    daemon.process.kill();
    assert!(names(&server.scratch.at("spool")).is_empty());
}
