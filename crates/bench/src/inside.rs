//! Measurements inside a lab, from a plan.
//!
//! The server runs on host b and the client on host a. `run` prints one row of JSON for each run of
//! a program. Programs take turns, and only one runs at a time. A program that exceeds the time
//! limit is stopped and not repeated. Each complete copy is compared with its source. The process
//! ends, and with it the lab, as soon as its standard input ends.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use lighthaul_lab::congestion::prefer;

use super::case::{Data, Path as TestPath};
use super::folders;
use super::outcome::{Outcome, Row};
use super::peers::{self, Peer, TrialOutput};
use super::plan::{Plan, Trial};
use super::side::Side;

/// Runs the measurements of a plan. Prints a row of JSON for each run.
pub(crate) fn run(plan: &Path) -> io::Result<()> {
    end_with_input();
    let plan: Plan = serde_json::from_str(&fs::read_to_string(plan)?)?;
    let address = std::env::var("LIGHTHAUL_LAB_B").map_err(io::Error::other)?;
    if plan.path == TestPath::Ssh {
        close_ports(&plan)?;
    }
    let all = peers::all();
    for files in &plan.file_sets {
        let trial = Trial {
            path: plan.path,
            files,
            tools: &plan.tools,
            seconds: plan.seconds,
            address: &address,
        };
        let mut tired: Vec<&str> = Vec::new();
        for _ in 0..plan.runs {
            for peer in all
                .iter()
                .filter(|peer| files.peers.iter().any(|name| *name == peer.name()))
            {
                if tired.contains(&peer.name()) {
                    continue;
                }
                let limit_s = files.data.limit_s(plan.limit_s);
                let result = measure(peer.as_ref(), &trial, limit_s);
                if result.as_ref().is_ok_and(|outcome| outcome.is_cut) {
                    tired.push(peer.name());
                }
                let row = Row {
                    path: plan.path,
                    loss: plan.loss,
                    data: files.data,
                    tool: peer.name().to_owned(),
                    result,
                };
                writeln!(io::stdout(), "{}", serde_json::to_string(&row)?)?;
            }
        }
        folders::clear(&files.target)?;
    }
    Ok(())
}

/// Closes all ports of the far host to other hosts, except the port of ssh.
fn close_ports(plan: &Plan) -> io::Result<()> {
    let mut on_far = Command::new(&plan.tools.lighthaul);
    on_far.args(["lab", "on", "b", "--", "sh", "-c", CLOSE_PORTS]);
    if on_far.status()?.success() {
        return Ok(());
    }
    Err(io::Error::other(
        "nft cannot close the ports; install the Debian package nftables",
    ))
}

const CLOSE_PORTS: &str = "nft add table inet bench && \
    nft 'add chain inet bench in { type filter hook input priority 0; }' && \
    nft 'add rule inet bench in iifname != \"lo\" tcp dport != 2222 drop' && \
    nft 'add rule inet bench in iifname != \"lo\" meta l4proto udp drop'";

/// Ends this process and its lab when the parent process closes standard input.
fn end_with_input() {
    thread::spawn(|| {
        io::stdin().read_to_end(&mut Vec::new()).ok();
        #[expect(clippy::exit, reason = "the parent process has ended")]
        std::process::exit(1);
    });
}

/// Runs one program once. Returns the reason if it failed.
fn measure(peer: &dyn Peer, trial: &Trial<'_>, limit_s: f64) -> Result<Outcome, String> {
    folders::clear(&trial.files.target)
        .and_then(|()| folders::warm(&trial.files.target, trial.files.data))
        .map_err(|e| e.to_string())?;
    prefer(peer.control()).map_err(|e| e.to_string())?;
    let service = peer.serve(trial).map_err(|e| e.to_string())?;
    let start = |is_far, words: &[String], ready: Option<&str>| {
        Side::start(trial.tools, is_far, words, ready, trial.path.tasks())
            .map_err(|e| e.to_string())
    };
    let mut far = start(true, &service.words, Some(service.ready))?;
    if !far.is_ready(SERVICE_WAIT) {
        return Err(format!(
            "the server did not start: {}",
            last_line(&far.complaints())
        ));
    }
    if trial.files.data == Data::Again {
        start(false, &peer.send(trial), None)?
            .wait(Duration::from_secs_f64(limit_s))
            .ok_or("the first run, which is not measured, did not end")?;
    }
    if trial.files.data == Data::Resumed {
        let mut first = start(false, &peer.send(trial), None)?;
        if first.wait(half_time(trial)).is_some() || first.stop().is_none() {
            return Err(
                "the first run, which is not measured, was not stopped half-way".to_owned(),
            );
        }
    }
    let mut near = start(false, &peer.send(trial), None)?;
    let ended = near.wait(Duration::from_secs_f64(limit_s));
    let is_cut = ended.is_none();
    // Count before the program ends, since it may remove files.
    let arrived = folders::bytes_in(&trial.files.target);
    let near_cost = ended
        .or_else(|| near.stop())
        .ok_or("the client did not stop")?;
    let far_cost = service.ends_alone.then(|| far.wait(SERVICE_WAIT)).flatten();
    let far_cost = far_cost
        .or_else(|| far.stop())
        .ok_or("the server did not stop")?;
    let mut output = TrialOutput {
        near: near.output(),
        far: far.output(),
        seconds: if is_cut { limit_s } else { near_cost.seconds },
        arrived,
        is_cut,
    };
    let complaint = last_line(&format!("{}\n{}", far.complaints(), near.complaints()));
    if near_cost.code != 0 && !is_cut {
        return Err(format!("status {}: {complaint}", near_cost.code));
    }
    if !is_cut && trial.files.data != Data::Memory && !peer.is_memory_only() {
        output.arrived = folders::bytes_in(&trial.files.target);
        let target = trial.files.target.join(trial.name());
        folders::compare(&trial.files.source, &target)
            .map_err(|why| format!("NOT A TRUE COPY: {why}"))?;
    }
    let moved = peer
        .moved(trial, &output)
        .map_err(|why| format!("{why}: {complaint}"))?;
    Ok(Outcome {
        seconds: moved.seconds,
        bytes: moved.bytes,
        cpu_s: near_cost.cpu_s + far_cost.cpu_s,
        rss_bytes: [near_cost.rss_bytes, far_cost.rss_bytes],
        is_cut,
        report: moved.report,
    })
}

/// Returns the time in which half of the data crosses the path.
fn half_time(trial: &Trial<'_>) -> Duration {
    let rate = trial.path.payload_bps().unwrap_or(f64::INFINITY);
    Duration::from_secs_f64(trial.files.data.bytes() as f64 * 4.0 / rate)
}

/// Returns the last line that is not blank, at most 120 characters.
fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("no output")
        .trim()
        .chars()
        .take(120)
        .collect()
}

const SERVICE_WAIT: Duration = Duration::from_secs(30);
