//! Networks that fail and return.

use crate::far::Far;
use crate::running::Running;
use crate::scratch::names;
use crate::stage::Stage;

/// Pushes or pulls over a path that fails in the middle, until the copy was given up and a retry has
/// failed as well. The setting shortens the time until both.
fn assert_survived(name: &str, pull: bool) {
    let Some(stage) = Stage::pair(name, "rate = \"100Mb/s\"\nrtt = \"20ms\"") else {
        return;
    };
    let far = Far::start_on(name, stage);
    let file = far.near.file("x", 40_000_000);
    let back = far.near.folder("back");
    let copy = if pull {
        back.join("x")
    } else {
        far.target.join("copy")
    };
    let options = ["--json", "--rate", "40Mb/s", "--pin", &far.pin];
    let mut command = far.near.cp(&options);
    command.args(["--stall-timeout", "3s", "--key"]);
    command.arg(far.near.key());
    if pull {
        std::fs::copy(&file, far.target.join("source")).unwrap();
        command.arg(far.place("source")).arg(&copy);
    } else {
        command.arg(&file).arg(far.place("copy"));
    }
    let mut running = Running::start(command);
    running.prints("\"type\":\"progress\"");
    running.prints("\"round\":");
    let stage = far.near.stage.as_ref().unwrap();
    for host in ["a", "b"] {
        stage.block(host, "ip saddr 10.77.0.0/16");
    }
    running.says("retrying in 1 s");
    running.says("retrying in 2 s");
    for host in ["a", "b"] {
        stage.unblock(host);
    }
    let outcome = running.finish().assert_succeeded();
    let summary = outcome.events().pop().unwrap();
    assert_eq!(summary["verified"], true, "{summary}");
    let source = if pull {
        far.target.join("source")
    } else {
        file
    };
    assert!(std::fs::read(&copy).unwrap() == std::fs::read(&source).unwrap());
    let folder = copy.parent().unwrap();
    assert!(
        names(folder).iter().all(|name| !name.starts_with('.')),
        "{:?}",
        names(folder)
    );
}

#[test]
fn push_survives_a_network_outage_and_a_failed_retry() {
    assert_survived("push_survives_a_network_outage_and_a_failed_retry", false);
}

#[test]
fn pull_survives_a_network_outage_and_a_failed_retry() {
    assert_survived("pull_survives_a_network_outage_and_a_failed_retry", true);
}
