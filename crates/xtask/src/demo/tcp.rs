//! Transfer of the same number of bytes over the kernel's TCP, with iperf3.

use std::fmt::Write;
use std::process::Stdio;

use lighthaul_lab::emulate::Lab;
use serde_json::Value;

use crate::demo::running::Running;
use crate::demo::table::Row;
use crate::demo::tree::Size;

/// Sends `size` bytes from host a to host b, once with each congestion control.
pub(crate) fn send(lab: &Lab, size: Size) -> Result<Vec<Row>, String> {
    let mut server = lab.command("b", "iperf3").map_err(|e| e.to_string())?;
    server
        .args(["-s", "--forceflush"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let server = server.spawn().map(Running);
    let mut server = server.map_err(|e| format!("iperf3 (`make setup` installs it): {e}"))?;
    if let Some(pipe) = server.0.stdout.take() {
        // The first output means that the server listens.
        let mut octet = [0];
        let _ = std::io::Read::read(&mut { pipe }, &mut octet);
    }
    let rows = CONTROLS.iter();
    let rows = rows.map(|control| send_with(lab, control, size.bytes));
    let rows = rows.collect::<Result<_, _>>()?;
    lab.prefer("a", None).map_err(|e| e.to_string())?;
    Ok(rows)
}

fn send_with(lab: &Lab, control: &str, bytes: u64) -> Result<Row, String> {
    println!("\niperf3 with {control}, {SECONDS_MAX} s at most");
    let preferred = lab.prefer("a", Some(control));
    preferred.map_err(|e| e.to_string())?;
    let mut client = lab.command("a", "timeout").map_err(|e| e.to_string())?;
    client.args([
        "--foreground",
        "-s",
        "INT",
        SECONDS_MAX,
        "iperf3",
        "-J",
        "-c",
        "b",
        "-C",
        control,
        "-n",
    ]);
    let output = client.arg(bytes.to_string()).stderr(Stdio::null()).output();
    let output = output.map_err(|e| format!("iperf3: {e}"))?;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match output.status.code() {
        Some(0) => row(&report, control, bytes, false),
        Some(TIMED_OUT) => row(&report, control, bytes, true),
        _ => Err(format!("iperf3 with {control}: {}", why(&report))),
    }
}

/// Evaluates iperf3's report. Extrapolates the duration of a run that was cut off.
fn row(report: &Value, control: &str, bytes: u64, cut: bool) -> Result<Row, String> {
    let empty = Vec::new();
    let intervals = report["intervals"].as_array().unwrap_or(&empty);
    let sum = |what: &str| -> f64 {
        intervals
            .iter()
            .filter_map(|interval| interval["sum"][what].as_f64())
            .sum()
    };
    let received = |what: &str| report["end"]["sum_received"][what].as_f64().unwrap_or(0.0);
    // A run that was cut off only has the sender's counts.
    let count = |what: &str| if cut { sum(what) } else { received(what) };
    let (moved, seconds) = (count("bytes"), count("seconds"));
    if moved <= 0.0 || seconds <= 0.0 {
        return Err(format!("iperf3 with {control}: {}", why(report)));
    }
    let mut remark = "plain, from memory to memory".to_owned();
    if cut {
        let gib = moved / f64::from(1 << 30);
        let _ = write!(
            remark,
            "; stopped after {seconds:.0} s and {gib:.2} GiB, and extrapolated"
        );
    }
    Ok(Row {
        name: format!("iperf3, TCP {control}"),
        bytes,
        seconds: seconds * bytes as f64 / moved,
        estimated: cut,
        verified: "no".to_owned(),
        remark,
    })
}

fn why(report: &Value) -> &str {
    report["error"].as_str().unwrap_or("no report")
}

const CONTROLS: [&str; 2] = ["cubic", "bbr"];
const SECONDS_MAX: &str = "20";
/// Exit status of `timeout` after a timeout.
const TIMED_OUT: i32 = 124;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn duration_of_a_cut_off_run_is_extrapolated() {
        let second = json!({"sum": {"bytes": 25_000_000, "seconds": 1.0}});
        let report = json!({"intervals": [second, second], "end": {}, "error": "interrupt"});
        let row = row(&report, "cubic", 1_000_000_000, true).unwrap();
        assert!(row.estimated);
        assert!((row.seconds - 40.0).abs() < 1e-9);
    }

    #[test]
    fn complete_run_uses_the_receivers_counts() {
        let report =
            json!({"intervals": [], "end": {"sum_received": {"bytes": 1000, "seconds": 8.0}}});
        let row = row(&report, "bbr", 1000, false).unwrap();
        assert!(!row.estimated);
        assert!((row.seconds - 8.0).abs() < 1e-9);
        assert!(super::row(&json!({"error": "no route"}), "bbr", 1, false).is_err());
    }
}
