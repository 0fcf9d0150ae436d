//! Streams of iperf3.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use super::site::{PORTS, Path, SHIFT, Site, cpu_seconds, memory_mib};
use super::table::Line;
use crate::demo::show::Running;

/// How streams get to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the gateways.
    Gateways,
    /// By themselves, with this congestion control.
    Direct(&'static str),
}

/// Runs streams for so long.
pub(super) fn measure(site: &Site, path: &Path, way: Way, seconds: u32) -> Result<Line, String> {
    let failed = |why: &dyn std::fmt::Display| format!("iperf3 (`make setup` installs it): {why}");
    let mut serve = site.lab.command("s", "iperf3").map_err(|e| failed(&e))?;
    let port = PORTS[0] - SHIFT;
    serve.args(["-s", "-1", "--forceflush", "-p", &port.to_string()]);
    serve.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = serve.spawn().map(Running).map_err(|e| failed(&e))?;
    let pipe = server.0.stdout.take().ok_or("iperf3 has no output")?;
    let mut said = BufReader::new(pipe).lines().map_while(Result::ok);
    if !said.any(|line| line.contains("listening")) {
        return Err(failed(&"the server does not listen"));
    }
    // what it says later is read and forgotten, so that it does not wait for that
    thread::spawn(move || said.for_each(drop));
    let direct = site.lab.address("s").map_err(|e| failed(&e))?.to_string();
    let (host, port, control) = match way {
        Way::Gateways => (site.entry.as_str(), PORTS[0], "cubic"),
        Way::Direct(control) => (direct.as_str(), port, control),
    };
    let streams = if path.rtt_ms == 0 { "1" } else { "4" };
    let mut client = site.lab.command("c", "iperf3").map_err(|e| failed(&e))?;
    client.args(["-J", "-c", host, "-p", &port.to_string(), "-C", control]);
    client.args(["-P", streams, "-t", &seconds.to_string()]);
    let before = [&site.ingress, &site.egress].map(cpu_seconds);
    let output = client.output().map_err(|e| failed(&e))?;
    let after = [&site.ingress, &site.egress].map(cpu_seconds);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let received = |what: &str| report["end"]["sum_received"][what].as_f64();
    let (Some(bytes), Some(took)) = (received("bytes"), received("seconds")) else {
        let why = report["error"].as_str().unwrap_or("no report");
        return Err(failed(&why));
    };
    let name = match way {
        Way::Gateways => "gateways".to_owned(),
        Way::Direct(control) => format!("direct, {control}"),
    };
    let gigabytes = bytes / 1e9;
    let each = |nth: usize| (after[nth] - before[nth]) / gigabytes;
    let cost = format!(
        "CPU {:.2} and {:.2} s/GB, {} and {} MiB",
        each(0),
        each(1),
        memory_mib(&site.ingress),
        memory_mib(&site.egress)
    );
    Ok(Line {
        path: format!("{}, {streams} x {seconds} s", path.name),
        way: name,
        value: bytes * 8.0 / took / 1e6,
        unit: "Mb/s",
        remark: if way == Way::Gateways {
            cost
        } else {
            String::new()
        },
    })
}
