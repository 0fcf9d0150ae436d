//! Stop of a scheduler with a database server.

use std::fs;
use std::process::{Command, Stdio};

use crate::server::Server;
use crate::taking_over::{Folder, Instance};

#[test]
fn stopped_scheduler_ends_without_a_panic() {
    let Some(server) = Server::start() else {
        return;
    };
    let folder = Folder::make("stopping");
    let log = folder.0.join("log");
    let stderr = || Stdio::from(fs::File::create(&log).unwrap());
    let mut instance = Instance::start_with(&server, &folder.0, &stderr);
    assert!(instance.client().health().is_ok());
    let id = instance.child.id().to_string();
    let reports = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(reports.success());
    let ended = instance.child.wait().unwrap();
    let said = fs::read_to_string(&log).unwrap();
    assert!(ended.success(), "{ended}: {said}");
    assert!(!said.contains("panicked"), "{said}");
}
