//! Keys that are no paths: nothing is written outside of the target, and each is reported.

use crate::proxy::{Fault, Proxy};
use crate::running::Running;
use crate::scratch::names;
use crate::server::Server;

#[test]
fn keys_that_are_no_paths_are_reported_and_not_copied() {
    let Some(server) = Server::start("keys") else {
        return;
    };
    server.write("t/good", "12345");
    server.copy(&["t/", "s3://data/p/"]);
    let proxy = Proxy::start(&server.address, |head, _| {
        if !head.contains("list-type=2") {
            return Fault::Pass;
        }
        let keys = [
            "p/good",
            "p/../out",
            "p/a/../../out",
            "/p/abs",
            "p//out",
            "p/a//b",
            "p/./x",
            "p/bad%0Aname",
            "p/esc%1B%5B2J",
            "q/foreign",
            "p/.lighthaul-0123456789abcdef",
            "p/mark/",
            "p/bytes/",
        ];
        let contents = keys.map(|key| {
            let size = if key == "p/mark/" { 0 } else { 5 };
            format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>")
        });
        let contents = contents.concat();
        let xml = format!(
            "<ListBucketResult><EncodingType>url</EncodingType>{contents}</ListBucketResult>"
        );
        Fault::Answer(200, xml)
    });
    let command = server.command_at(&proxy.address, &["cp", "--json", "s3://data/p/", "d/e"]);
    server.scratch.folder("d");
    let outcome = Running::start(command).finish();
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    let errors = outcome
        .events()
        .into_iter()
        .filter(|event| event["type"] == "error");
    assert_eq!(errors.count(), 11, "{outcome:?}");
    assert_eq!(names(&server.scratch.at("d/e")), ["good", "mark"]);
    assert_eq!(names(&server.scratch.at("d")), ["e"]);
    assert!(
        outcome.err.iter().all(|line| !line.contains('\u{1b}')),
        "{outcome:?}"
    );
}

#[test]
fn object_and_prefix_with_one_name_collide_and_are_reported() {
    let Some(server) = Server::start("collide") else {
        return;
    };
    server.write("t/a", "12345");
    server.copy(&["t/", "s3://data/"]);
    let proxy = Proxy::start(&server.address, |head, _| {
        if head.starts_with("GET /data/a/b") {
            return Fault::Answer(200, "12345".to_owned());
        }
        if !head.contains("list-type=2") {
            return Fault::Pass;
        }
        let contents =
            ["a", "a/b"].map(|key| format!("<Contents><Key>{key}</Key><Size>5</Size></Contents>"));
        Fault::Answer(
            200,
            format!("<ListBucketResult>{}</ListBucketResult>", contents.concat()),
        )
    });
    // either may come first; the other one fails
    let command = server.command_at(&proxy.address, &["cp", "s3://data/", "d"]);
    let outcome = Running::start(command).finish();
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert_eq!(names(&server.scratch.at("d")), ["a"]);
}

#[test]
fn links_at_the_target_do_not_lead_out() {
    let Some(server) = Server::start("out") else {
        return;
    };
    server.write("t/link/x", "x");
    server.write("t/y", "y");
    server.copy(&["t/", "s3://data/"]);
    server.scratch.folder("d");
    let outside = server.scratch.folder("outside");
    std::os::unix::fs::symlink(&outside, server.scratch.at("d/link")).unwrap();
    let outcome = server.run(&["cp", "s3://data/", "d/"]);
    assert_eq!(outcome.code, Some(23), "{outcome:?}");
    assert!(names(&outside).is_empty());
    assert_eq!(server.read("d/y"), "y");
}
