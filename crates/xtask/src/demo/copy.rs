//! The tree by `lighthaul cp` to `lighthaul serve`, each with a key that the other knows.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, stderr};
use std::path::Path;
use std::process::{Command, Stdio};

use lighthaul_io::clock::Clock;
use lighthaul_lab::emulate::Lab;
use serde_json::Value;

use crate::demo::show::Running;
use crate::demo::table::Row;
use crate::demo::tree::Size;

/// Copies `source` from host a to host b, below `folder`, and compares both.
pub(crate) fn copy(
    lab: &Lab,
    program: &Path,
    folder: &Path,
    source: &Path,
    size: Size,
) -> Result<Row, String> {
    let file = |name: &str| folder.join(name);
    let caller = key(program, &file("caller_key"))?;
    let host = key(program, &file("host_key"))?;
    run(Command::new(program)
        .arg("allow")
        .arg(caller)
        .arg("--allowed")
        .arg(file("allowed")))?;
    let root = file("arrived");
    fs::create_dir(&root).map_err(|e| e.to_string())?;
    let mut serve = lab.command("b", program).map_err(|e| e.to_string())?;
    serve.arg("serve").arg("--root").arg(&root);
    serve
        .arg("--key")
        .arg(file("host_key"))
        .arg("--allowed")
        .arg(file("allowed"));
    let _server = listening(serve.stderr(Stdio::piped()))?;
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
    cp.arg("--key")
        .arg(file("caller_key"))
        .arg("--pin")
        .arg(host);
    println!("\nlighthaul cp tree lh://b/copy");
    let clock = Clock::start();
    let events = run(cp.arg(source).arg("lh://b/copy").stderr(Stdio::inherit()))?;
    let seconds = clock.now().as_secs_f64();
    let summary = summary(&events)?;
    let verified = summary["verified"] == true;
    let same = Command::new("diff")
        .arg("-rq")
        .arg(source)
        .arg(root.join("copy"))
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
            "encrypted; of these {:.1} s before the first datagram, {} datagrams of {} sent again",
            summary["elapsed_s"].as_f64().unwrap_or(0.0)
                - summary["moving_s"].as_f64().unwrap_or(0.0),
            summary["packets_resent"],
            summary["packets"],
        ),
    })
}

/// The fingerprint of the key at `path`, which is made.
pub(crate) fn key(program: &Path, path: &Path) -> Result<String, String> {
    run(Command::new(program).arg("key").arg("--key").arg(path)).map(|text| text.trim().to_owned())
}

/// What a command prints; its failure is ours.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command
        .get_args()
        .next()
        .map(OsStr::to_owned)
        .unwrap_or_default();
    let output = command
        .stdout(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(|e| format!("lighthaul {}: {e}", name.display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("lighthaul {}: {}", name.display(), output.status))
    }
}

/// Starts a server and waits until it says that it listens.
fn listening(serve: &mut Command) -> Result<(Running, impl Sized + use<>), String> {
    let mut server = serve
        .spawn()
        .map(Running)
        .map_err(|e| format!("lighthaul serve: {e}"))?;
    let pipe = server
        .0
        .stderr
        .take()
        .ok_or("lighthaul serve has no output")?;
    let mut lines = BufReader::new(pipe).lines();
    match lines.next() {
        Some(Ok(line)) if line.contains("listening") => Ok((server, lines)),
        Some(Ok(line)) => Err(line),
        _ => Err("lighthaul serve ended".to_owned()),
    }
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
