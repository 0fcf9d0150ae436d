//! Requester that was written from the schemas, in Python.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::instance::{Folder, Instance};

#[test]
fn requester_written_from_the_schemas_gets_standard_answers() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nsi/requester.py");
    let mut requester = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut orders = requester.stdin.take().unwrap();
    let mut lines = BufReader::new(requester.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let port = first.strip_prefix("port ").unwrap();
    let folder = Folder::make("foreign");
    let config = config(&format!("http://127.0.0.1:{port}/nsi/"));
    let mut instance = Instance::start(&folder, &config);
    writeln!(orders, "{}", instance.url()).unwrap();
    let mut done = Vec::new();
    for line in lines.map(Result::unwrap) {
        if line == "restart" {
            instance.kill();
            instance = Instance::start(&folder, &config);
            writeln!(orders, "{}", instance.url()).unwrap();
        } else {
            done.push(line);
        }
    }
    let status = requester.wait().unwrap();
    assert!(status.success(), "{status} after {done:?}");
    assert_eq!(done.len(), 8, "{done:?}");
}

/// Returns settings for one requester.
fn config(reply_to: &str) -> String {
    format!(
        "nsa = 'urn:ogf:network:example.net:2026:nsa:provider'\n\
         network = 'urn:ogf:network:example.net:2026:topology'\n\
         [[stp]]\nport = 'a'\nvlans = '100-110'\n\
         [[stp]]\nport = 'c'\n\
         [[requester]]\nnsa = 'urn:ogf:network:example.org:2026:nsa:requester'\nidentity = 'agg'\n\
         reply_to = ['{reply_to}']\n"
    )
}
