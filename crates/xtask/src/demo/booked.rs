//! Four simultaneous copies over one link: each on its own booked circuit, or all over TCP.
//!
//! `compare` starts a scheduler for the link, and copies four files of 300 MiB in each way. The
//! table shows the seconds of each copy in order of their ends, and for circuits also the times
//! that the scheduler promised. The link, the files and the daemon are the same in both.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{fs, thread};

use lighthaul_io::host::clock::Clock;
use lighthaul_lab::emulate::Lab;
use serde_json::Value;

use super::daemon::{Daemon, run, start};
use super::tree::noise;

/// Results of the copies with one method.
struct WayResult {
    name: &'static str,
    copies: Vec<Copy>,
}

/// Duration of a copy, and the seconds by which it ended before its promised time, if any.
struct Copy {
    seconds: f64,
    early: Option<f64>,
}

/// Copies four files at once, booked and over TCP. Returns a table of the durations.
pub(crate) fn compare(
    lab: &Lab,
    program: &Path,
    daemon: &Daemon,
    folder: &Path,
) -> Result<String, String> {
    let world = |why: std::io::Error| format!("cannot prepare four files: {why}");
    for nth in 1..=COPIES {
        noise(&folder.join(format!("part{nth}")), BYTES).map_err(world)?;
    }
    let file = |name: &str| folder.join(name);
    fs::write(file("network.toml"), NETWORK).map_err(world)?;
    let token = run(Command::new(program)
        .args(["token", "demo", "--role", "user", "--tokens"])
        .arg(file("tokens")))?;
    let mut serve = lab.command("a", program).map_err(|e| e.to_string())?;
    serve.args(["scheduler", "--no-tls", "--topology"]);
    serve.arg(file("network.toml"));
    serve.arg("--store").arg(file("books"));
    serve.arg("--tokens").arg(file("tokens"));
    let _scheduler = start(&mut serve, "booking at")?;
    let mut lines = Vec::new();
    for (name, options) in WAYS {
        println!(
            "\nfour copies at once: lighthaul cp {} part{{1,2,3,4}} lh://b/",
            options.join(" ")
        );
        let clock = Clock::start();
        let copies = (1..=COPIES).map(|nth| {
            let mut cp = lab.command("a", program).map_err(|e| e.to_string())?;
            cp.args(["cp", "--json", "--progress", "none", "--quiet"]);
            cp.args(options)
                .args(["--far-node", "b", "--scheduler", SCHEDULER]);
            cp.env("LIGHTHAUL_SCHEDULER_TOKEN", token.trim());
            daemon.known_to(&mut cp);
            cp.arg(file(&format!("part{nth}")));
            cp.arg(format!("lh://b/{name}{nth}"));
            Ok(thread::spawn(move || {
                run(&mut cp).map(|events| (clock.now(), events))
            }))
        });
        let copies: Vec<_> = copies.collect::<Result<_, String>>()?;
        let mut done = WayResult {
            name,
            copies: Vec::new(),
        };
        for copy in copies {
            let (at, events) = copy.join().map_err(|_| "a copy panicked")??;
            done.copies.push(Copy {
                seconds: at.as_secs_f64(),
                early: early(&events),
            });
        }
        let order = |one: &Copy, other: &Copy| one.seconds.total_cmp(&other.seconds);
        done.copies.sort_by(order);
        lines.push(done);
    }
    Ok(table(&lines))
}

/// Returns the seconds by which a copy ended before its promised time, if any.
fn early(events: &str) -> Option<f64> {
    let events = events
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut released = events.filter(|event| event["type"] == "released");
    released.next()?["early_s"].as_f64()
}

/// Formats a line for each method, and a line about the promises.
fn table(lines: &[WayResult]) -> String {
    let mut text = format!("{:<18}{:>30}{:>9}\n", "", "seconds of each copy", "mean");
    for done in lines {
        let seconds = done.copies.iter().map(|copy| copy.seconds);
        let promised = done
            .copies
            .iter()
            .filter_map(|copy| Some(copy.seconds + copy.early?));
        line(&mut text, done.name, &seconds.collect::<Vec<_>>());
        line(&mut text, "  as promised", &promised.collect::<Vec<_>>());
    }
    for done in lines {
        let early = done.copies.iter().filter_map(|copy| copy.early);
        let Some(least) = early.min_by(f64::total_cmp) else {
            continue;
        };
        let kept = if least < 0.0 { "missed" } else { "kept" };
        let _ = writeln!(
            text,
            "\n{}: each copy had a promised time; the closest was {kept} by {:.1} s",
            done.name,
            least.abs()
        );
    }
    text
}

/// Adds a line with the durations and their mean, if there are any.
fn line(text: &mut String, name: &str, seconds: &[f64]) {
    if seconds.is_empty() {
        return;
    }
    let each: Vec<_> = seconds.iter().map(|at| format!("{at:.1}")).collect();
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let _ = writeln!(text, "{name:<18}{:>30}{mean:>9.1}", each.join("  "));
}

const COPIES: u64 = 4;
const BYTES: u64 = 300 << 20;
const WAYS: [(&str, &[&str]); 2] = [
    ("booked", &["--book", "--node", "a"]),
    ("tcp", &["--protocol", "tcp"]),
];
const SCHEDULER: &str = "http://127.0.0.1:4811";
/// Capacity of the link, less a margin for control traffic.
const NETWORK: &str =
    "[[link]]\nname = \"lambda\"\nfrom = \"a\"\nto = \"b\"\ncapacity = \"980Mb/s\"\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_line_per_method_with_the_mean() {
        let copy = |seconds, early| Copy { seconds, early };
        let done = |name, copies| WayResult { name, copies };
        let text = table(&[
            done("booked", vec![copy(2.0, Some(0.25)), copy(4.0, Some(0.5))]),
            done("tcp", vec![copy(5.0, None)]),
        ]);
        assert!(text.contains("2.0  4.0      3.0"), "{text}");
        assert!(text.contains("2.2  4.5      3.4"), "{text}");
        assert_eq!(text.matches("  as promised").count(), 1, "{text}");
        assert!(text.contains("kept by 0.2 s"), "{text}");
        assert_eq!(early("{\"type\":\"released\",\"early_s\":1.5}"), Some(1.5));
    }
}
