//! End of a daemon before an object store, and limits of objects.

use std::fs::File;
use std::time::Duration;

use crate::proxy::{Fault, Proxy};
use crate::running::becomes_true;
use crate::scratch::names;
use crate::served_daemon::{Daemon, LARGE, has_parts};
use crate::server::Server;

#[test]
fn daemon_that_is_stopped_gives_up_open_uploads() {
    let Some(server) = Server::start("served-stopped") else {
        return;
    };
    server.scratch.file("large", LARGE);
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.contains("partNumber=7&") {
            return Fault::Hang;
        }
        Fault::Pass
    });
    let options: (&[&str], &[&str]) = (&[], &["--upload-keep", "0"]);
    let daemon = Daemon::start_with(&server, &proxy.address, options);
    let clients = ["a", "b"].map(|name| {
        let place = format!("HOST/store/{name}");
        daemon.start_copy("tcp", &["--retries", "0", "large", &place])
    });
    becomes_true("parts have arrived", || proxy.count("partNumber=") >= 14);
    assert!(has_parts(&server));
    daemon.process.signal("TERM");
    for client in clients {
        let outcome = client.finish();
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    }
    // sessions and stores together have 10 s
    let ended = daemon.process.finish_within(Duration::from_secs(20));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!has_parts(&server));
    assert!(server.keys().is_empty());
    assert!(names(&server.scratch.at("spool")).is_empty());
}

#[test]
fn files_that_no_object_can_have_are_refused_before_they_are_sent() {
    let Some(server) = Server::start("served-limits") else {
        return;
    };
    // all of it is a hole
    let huge = File::create(server.scratch.at("huge")).unwrap();
    huge.set_len((5 << 40) + 1).unwrap();
    let proxy = Proxy::start(&server.address, |_, _| Fault::Pass);
    let daemon = Daemon::start(&server, &proxy.address, &[]);
    let outcome = daemon.copy("", &["huge", "HOST/store/huge"]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.said("an object of this store at most 5.00 TiB"),
        "{outcome:?}"
    );
    let outcome = server.run(&["cp", "huge", "s3://data/huge"]);
    assert!(
        outcome.said("an object of this store at most 5.00 TiB"),
        "{outcome:?}"
    );
    server.write("f", "file");
    // with the prefix of the store, the key has one octet too many
    let folder = format!("{}/", "d".repeat(200)).repeat(5);
    let most = 1024 - "in/".len() - folder.len();
    let place = format!("HOST/store/{folder}{}", "k".repeat(most + 1));
    let outcome = daemon.copy("", &["f", &place]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.said("more than 1024 bytes"), "{outcome:?}");
    assert_eq!(proxy.count("PUT ") + proxy.count("POST "), 0);
    let place = format!("HOST/store/{folder}{}", "k".repeat(most));
    daemon.copy("", &["f", &place]).assert_succeeded();
}
