//! Copy of the tree by `lighthaul cp`.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::process::{Command, Stdio};

use lighthaul_io::host::clock::Clock;
use lighthaul_lab::emulate::Lab;
use serde_json::Value;

use super::daemon::{Daemon, run};
use super::table::Row;
use super::tree::Size;

/// Copies `source` from host a to host b, and compares both trees.
pub(crate) fn copy(
    lab: &Lab,
    program: &Path,
    daemon: &Daemon,
    source: &Path,
    size: Size,
) -> Result<Row, String> {
    let mut cp = lab.command("a", program).map_err(|e| e.to_string())?;
    cp.args([
        "cp",
        "--json",
        "--progress",
        if stderr().is_terminal() {
            "bar"
        } else {
            "plain"
        },
    ]);
    daemon.known_to(&mut cp);
    println!("\nlighthaul cp -T tree lh://b/copy");
    let clock = Clock::start();
    let events = run(cp
        .arg("-T")
        .arg(source)
        .arg("lh://b/copy")
        .stderr(Stdio::inherit()))?;
    let seconds = clock.now().as_secs_f64();
    let summary = summary(&events)?;
    let verified = summary["verified"] == true;
    let same = Command::new("diff")
        .arg("-rq")
        .arg(source)
        .arg(daemon.root.join("copy"))
        .status();
    let same = same.map_err(|e| format!("cannot run diff: {e}"))?.success();
    let text = |is: bool| if is { "yes" } else { "NO" };
    Ok(Row {
        name: "lighthaul cp".to_owned(),
        bytes: size.bytes,
        seconds,
        estimated: false,
        verified: format!("{} by digests, {} by diff -r", text(verified), text(same)),
        remark: format!(
            "encrypted; first datagram after {:.1} s; {} of {} datagrams retransmitted",
            summary["elapsed_s"].as_f64().unwrap_or(0.0)
                - summary["moving_s"].as_f64().unwrap_or(0.0),
            summary["packets_resent"],
            summary["packets"],
        ),
    })
}

fn summary(events: &str) -> Result<Value, String> {
    let events = events
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut events = events.filter(|event| event["type"] == "summary");
    events
        .next()
        .ok_or_else(|| "lighthaul cp printed no summary".to_owned())
}
