//! Names of stores that a daemon serves: no client creates a file or directory with such a name on the host of the daemon.

use std::fs;
use std::os::unix::fs::symlink;

use lighthaul::{Client, Place, Settings};

use crate::running::Running;
use crate::scratch::names;
use crate::served_daemon::Daemon;
use crate::server::Server;

/// Spellings of a path beside the store that lead to its name.
const SPELLINGS: [&str; 4] = [
    "sub/../store",
    "sub/../store/",
    "here/store",
    "sub/up/./store",
];

/// Creates directories and links that lead back to the root.
fn lead_back(server: &Server) {
    server.scratch.folder("root/sub");
    symlink(".", server.scratch.at("root/here")).unwrap();
    symlink("..", server.scratch.at("root/sub/up")).unwrap();
}

#[test]
fn copies_do_not_take_the_name_of_a_store() {
    let Some(server) = Server::start("served-reserved") else {
        return;
    };
    lead_back(&server);
    let daemon = Daemon::start(&server, &server.address, &[]);
    server.write("f", "file");
    server.write("tree/store/x", "x");
    server.write("tree/other", "o");
    server.write("dir/x", "x");
    for path in SPELLINGS {
        let place = format!("HOST/{path}");
        for source in [&["f"][..], &["-T", "dir"], &["dir/"], &["f", "dir"]] {
            let args = [source, &[&place]].concat();
            let outcome = daemon.copy("", &args);
            assert_ne!(outcome.code, Some(0), "{args:?}: {outcome:?}");
            assert!(
                outcome.said("an object store has this name"),
                "{args:?}: {outcome:?}"
            );
        }
    }
    let outcome = daemon.copy("", &["tree/", "HOST/"]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert!(outcome.said("an object store has this name"), "{outcome:?}");
    assert_eq!(fs::read(server.scratch.at("root/other")).unwrap(), b"o");
    let place = format!("{}/sub/../store", daemon.host);
    for args in [&["mkdir"][..], &["mkdir", "-p"]] {
        let fixed = ["--key", "client-key", "--pin", &daemon.pin, &place];
        let outcome = server.run(&[args, &fixed].concat());
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    }
    let args = [
        "stream",
        "--key",
        "client-key",
        "--pin",
        &daemon.pin,
        "-",
        &place,
    ];
    let mut command = server.command_at(&server.address, &args);
    command.stdin(std::process::Stdio::null());
    let outcome = Running::start(command).finish();
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(!server.scratch.at("root/store").exists());
    assert!(server.keys().is_empty());
}

#[test]
fn operations_on_remote_files_do_not_take_the_name_of_a_store() {
    let Some(server) = Server::start("served-reserved-files") else {
        return;
    };
    lead_back(&server);
    server.write("root/file", "f");
    let daemon = Daemon::start(&server, &server.address, &[]);
    let mut settings = Settings::default();
    settings.route.daemon.key = Some(server.scratch.at("client-key"));
    settings.route.daemon.pin = Some(daemon.pin.clone());
    settings.known_paths = Some(server.scratch.at("paths"));
    let place = Place::parse(&format!("{}/", daemon.host)).unwrap();
    let files = Client::new(settings).files(&place, true).unwrap();
    for path in SPELLINGS.into_iter().chain(["store", "/store", "store/"]) {
        let path = path.as_bytes();
        assert!(files.make_folder(path).is_err(), "{path:?}");
        assert!(files.rename(b"file", path, false).is_err(), "{path:?}");
        assert!(files.rename(b"sub", path, true).is_err(), "{path:?}");
        assert!(files.copy(b"file", path, false).is_err(), "{path:?}");
        assert!(files.make_link(path, b"sub").is_err(), "{path:?}");
        assert!(files.append(path, None).is_err(), "{path:?}");
        let created = files.create(path, None, true);
        let written = created.and_then(|writer| {
            writer.write(b"x", 0)?;
            writer.commit(None)
        });
        assert!(written.is_err(), "{path:?}");
    }
    assert_eq!(names(&server.scratch.at("root")), ["file", "here", "sub"]);
    // the name is free elsewhere
    files.make_folder(b"sub/store").unwrap();
}
