//! Networks that fail and return.

use crate::far::Far;
use crate::running::Running;
use crate::scratch::names;
use crate::stage::Stage;

/// Pushes or pulls over a path that fails for some seconds in the middle, as often as the command
/// retries by itself.
fn assert_survived(name: &str, seconds: &str, pull: bool) {
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
    let mut command = far
        .near
        .cp(&["--json", "--rate", "40Mb/s", "--pin", &far.pin]);
    command.arg("--key").arg(far.near.key());
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
    assert!(stage.lab.run("a", &["sleep", seconds]).unwrap().success());
    for host in ["a", "b"] {
        stage.unblock(host);
    }
    let outcome = running.finish().assert_succeeded();
    assert!(outcome.said("retrying in 1 s"), "{outcome:?}");
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
fn push_survives_a_network_outage_of_half_a_minute() {
    assert_survived(
        "push_survives_a_network_outage_of_half_a_minute",
        "30",
        false,
    );
}

#[test]
fn pull_survives_a_network_outage_of_half_a_minute() {
    assert_survived(
        "pull_survives_a_network_outage_of_half_a_minute",
        "23",
        true,
    );
}
