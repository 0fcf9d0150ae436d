//! Lists, attributes and removals of objects of a served store.

use std::fs;

use crate::running::Outcome;
use crate::scratch::dress;
use crate::served_daemon::Daemon;
use crate::server::Server;

/// Runs a command about places, in which `HOST` stands for the daemon.
fn run(daemon: &Daemon<'_>, command: &[&str], places: &[&str]) -> Outcome {
    let places: Vec<String> = places
        .iter()
        .map(|place| place.replace("HOST", &daemon.host))
        .collect();
    let fixed = ["--key", "client-key", "--pin", &daemon.pin];
    let args = command.iter().chain(&fixed).copied();
    let args: Vec<&str> = args.chain(places.iter().map(String::as_str)).collect();
    daemon.server.run(&args)
}

#[test]
fn objects_are_listed_described_and_removed_as_files() {
    let Some(server) = Server::start("served-lists") else {
        return;
    };
    for path in ["tree/a", "tree/inner/b", "tree/inner/c", "tree/.hidden"] {
        server.write(path, "content");
        dress(&server.scratch.at(path), 0o644, 1_600_000_000);
    }
    server.write("root/local", "l");
    // these objects are outside of the prefix
    server.copy(&["tree/a", "s3://data/other"]);
    server.copy(&["tree/a", "s3://data/inner"]);
    let daemon = Daemon::start(&server, &server.address, &[]);
    daemon
        .copy("", &["tree/", "HOST/store/t/"])
        .assert_succeeded();
    let list = |options: &[&str], place: &str| {
        let command = [&["ls"], options].concat();
        let mut names = run(&daemon, &command, &[place]).assert_succeeded().out;
        names.sort();
        names
    };
    assert_eq!(list(&[], "HOST/"), ["local", "store"]);
    assert_eq!(list(&[], "HOST/store"), ["t"]);
    assert_eq!(list(&[], "HOST/store/t/"), ["a", "inner"]);
    assert_eq!(list(&["-a"], "HOST/store/t"), [".hidden", "a", "inner"]);
    assert_eq!(
        list(&["--recursive"], "HOST/store"),
        ["t", "t/a", "t/inner", "t/inner/b", "t/inner/c"]
    );
    let stat = run(
        &daemon,
        &["stat", "--json"],
        &["HOST/store/t/a", "HOST/store/t"],
    );
    let stat = stat.assert_succeeded();
    let kinds: Vec<String> = stat
        .events()
        .iter()
        .map(|event| event["kind"].to_string())
        .collect();
    assert!(kinds.iter().any(|kind| kind.contains("file")), "{stat:?}");
    assert!(
        stat.events().iter().any(|event| event["size"] == 7),
        "{stat:?}"
    );
    let du = run(&daemon, &["du"], &["HOST/store/t"]).assert_succeeded();
    assert!(du.out.concat().contains("/store/t"), "{du:?}");
    failures_name_the_path_of_the_client(&daemon);
    let both = ["HOST/store/t/a", "HOST/local"];
    run(&daemon, &["rm"], &both).assert_failed(1, "in a command of their own");
    assert!(server.scratch.at("root/local").exists());
    run(&daemon, &["rm"], &["HOST/store/t/a"]).assert_succeeded();
    run(&daemon, &["rm", "-r"], &["HOST/store/t/inner"]).assert_succeeded();
    let mut keys = server.keys();
    keys.sort();
    assert_eq!(keys, ["in/t/.hidden", "inner", "other"]);
}

fn failures_name_the_path_of_the_client(daemon: &Daemon<'_>) {
    for command in [&["ls"][..], &["stat"], &["rm"]] {
        let outcome = run(daemon, command, &["HOST/store/none"]);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.said("there is no such object"), "{outcome:?}");
        assert!(
            !outcome.said("s3://") && !outcome.said("data/in"),
            "{outcome:?}"
        );
    }
    for (command, place, why) in [
        (&["rm"][..], "HOST/store/t/inner", "remove them with -r"),
        (&["rm", "-r"], "HOST/store", "it is an object store"),
        (&["rm", "-r"], "HOST/store/", "it is an object store"),
        (&["mkdir"], "HOST/store/new", "no directories"),
    ] {
        let outcome = run(daemon, command, &[place]);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.said(why), "{why}: {outcome:?}");
    }
}

#[test]
fn rights_limit_lists_and_removals() {
    let Some(server) = Server::start("served-lists-rights") else {
        return;
    };
    server.write("f", "file");
    server.copy(&["f", "s3://data/in/alice/f"]);
    server.copy(&["f", "s3://data/in/bob/f"]);
    let daemon = Daemon::start(&server, &server.address, &["--read-only"]);
    run(&daemon, &["rm"], &["HOST/store/bob/f"]).assert_failed(13, "may only read");
    run(&daemon, &["ls"], &["HOST/store/bob"]).assert_succeeded();
    drop(daemon);
    fs::remove_file(server.scratch.at("allowed")).unwrap();
    let daemon = Daemon::start(&server, &server.address, &["--root", "store/alice"]);
    let listed = run(&daemon, &["ls"], &["HOST/"]).assert_succeeded();
    assert_eq!(listed.out, ["f"]);
    for place in ["HOST/../bob", "HOST/bob", "HOST/store/bob"] {
        let outcome = run(&daemon, &["rm", "-r"], &[place]);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    }
    let outcome = run(&daemon, &["rm", "-r"], &["HOST/f"]);
    outcome.assert_succeeded();
    assert_eq!(server.keys(), ["in/bob/f"]);
}
