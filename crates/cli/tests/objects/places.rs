//! Lists, attributes, sizes and removal of objects.

use crate::server::Server;

#[test]
fn objects_are_listed_described_and_removed() {
    let Some(server) = Server::start("list") else {
        return;
    };
    for (name, text) in [
        ("a", "1"),
        ("b/c", "22"),
        ("b/d/e", "333"),
        ("bc", "4444"),
        (".h", "5"),
    ] {
        server.write(&format!("t/{name}"), text);
    }
    server.copy(&["t/", "s3://data/"]);
    let printed = |args: &[&str]| server.run(args).assert_succeeded().out;
    assert_eq!(printed(&["ls", "s3://data"]), ["a", "b", "bc"]);
    assert_eq!(printed(&["ls", "-a", "s3://data/"]), [".h", "a", "b", "bc"]);
    assert_eq!(printed(&["ls", "s3://data/b"]), ["c", "d"]);
    assert_eq!(
        printed(&["ls", "--recursive", "s3://data/b/"]),
        ["c", "d", "d/e"]
    );
    assert_eq!(printed(&["ls", "s3://data/a"]), ["a"]);
    server
        .run(&["ls", "s3://data/none"])
        .assert_failed(3, "there is no such object");
    server
        .run(&["ls", "s3://none/"])
        .assert_failed(3, "there is no such bucket");
    let stat = server
        .run(&["stat", "--json", "s3://data/bc", "s3://data/b"])
        .assert_succeeded();
    let events = stat.events();
    assert_eq!(
        (&events[0]["kind"], &events[0]["size"]),
        (&"file".into(), &4.into())
    );
    assert_eq!(events[1]["kind"], "directory");
    let usage = server
        .run(&["du", "--json", "s3://data/b"])
        .assert_succeeded();
    assert_eq!(usage.event("usage")["bytes"], 5);
    server
        .run(&["rm", "s3://data/b"])
        .assert_failed(1, "remove them with -r");
    server
        .run(&["rm", "s3://data/none"])
        .assert_failed(3, "there is no such object");
    server.run(&["rm", "-r", "s3://data/b"]).assert_succeeded();
    server.run(&["rm", "s3://data/a"]).assert_succeeded();
    assert_eq!(server.keys(), [".h", "bc"]);
    server
        .run(&["mkdir", "s3://data/x"])
        .assert_failed(1, "no directories");
    server
        .run(&["rm", "s3://data/x/../bc"])
        .assert_failed(1, "no URL can name");
    assert_eq!(server.keys(), [".h", "bc"]);
}
