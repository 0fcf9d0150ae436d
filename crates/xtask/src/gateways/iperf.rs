//! Streams of iperf3.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use super::path::Path;
use super::route::Route;
use super::site::{PORTS, SHIFT, Site, cpu_seconds, memory_mib};
use super::table::Line;
use crate::demo::running::Running;

/// Runs streams for `seconds`, and returns their goodput.
pub(super) fn measure(
    site: &Site,
    path: &Path,
    route: Route,
    seconds: u32,
) -> Result<Line, String> {
    site.control(route)?;
    let _server = serve(site)?;
    let mut client = client(site, path, route, seconds)?;
    let before = [&site.ingress, &site.egress].map(cpu_seconds);
    let output = client.output().map_err(|e| failed(&e))?;
    let after = [&site.ingress, &site.egress].map(cpu_seconds);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let received = |what: &str| report["end"]["sum_received"][what].as_f64();
    let (Some(bytes), Some(took)) = (received("bytes"), received("seconds")) else {
        let why = report["error"].as_str().unwrap_or("no report");
        return Err(failed(&why));
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
        path: format!("{}, {} x {seconds} s", path.name, streams(path)),
        route: route.name(),
        value: bytes * 8.0 / took / 1e6,
        unit: "Mb/s",
        remark: match route {
            Route::Gateways(_) => cost,
            Route::Direct(_) => String::new(),
        },
        place: path.place(route),
    })
}

/// Starts a server for one run.
pub(super) fn serve(site: &Site) -> Result<Running, String> {
    let mut serve = site.lab.command("s", "iperf3").map_err(|e| failed(&e))?;
    serve.args(["-s", "-1", "--forceflush", "-p", &SERVER.to_string()]);
    serve.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = serve.spawn().map(Running).map_err(|e| failed(&e))?;
    let pipe = server.0.stdout.take().ok_or("iperf3 has no output")?;
    let mut said = BufReader::new(pipe).lines().map_while(Result::ok);
    if !said.any(|line| line.contains("listening")) {
        return Err(failed(&"the server did not start listening"));
    }
    // Discard further output, so that the server does not block.
    thread::spawn(move || said.for_each(drop));
    Ok(server)
}

/// Creates a client that sends for `seconds`.
pub(super) fn client(
    site: &Site,
    path: &Path,
    route: Route,
    seconds: u32,
) -> Result<Command, String> {
    let direct = site.lab.address("s").map_err(|e| failed(&e))?.to_string();
    let (host, port) = match route {
        Route::Gateways(_) => (site.entry.as_str(), PORTS[0]),
        Route::Direct(_) => (direct.as_str(), SERVER),
    };
    let mut client = site.lab.command("c", "iperf3").map_err(|e| failed(&e))?;
    client.args(["-J", "-c", host, "-p", &port.to_string()]);
    client.args(["-C", route.control(), "-P", streams(path)]);
    client.args(["-t", &seconds.to_string()]);
    Ok(client)
}

const fn streams(path: &Path) -> &'static str {
    if path.rtt_ms == 0 { "1" } else { STREAMS }
}

fn failed(why: &dyn std::fmt::Display) -> String {
    format!("iperf3 (`make setup` installs it): {why}")
}

/// Number of streams, except on a veth pair.
pub(super) const STREAMS: &str = "4";
const SERVER: u16 = PORTS[0] - SHIFT;
