//! Paths as text: a line for each probe, and the table of the live screen.

use std::fmt::Write;

use lighthaul_base::escape::escape_name as shown;

use super::row::{bytes, time};
use crate::path::{PathMeasures, PathSample, PathStatus, PathTable};

/// Returns the line of a probe for logs and pipes.
pub fn line(sample: &PathSample) -> String {
    let (time, host) = (time(sample.time_s), shown(sample.host.as_bytes()));
    let Some(measured) = &sample.measured else {
        return format!("{time} path {host}: {}", fault(sample));
    };
    let mut line = format!(
        "{time} path {host}: rtt {}, jitter {}, {} of {} datagrams lost",
        millis(measured.rtt_min_s),
        millis(measured.jitter_s),
        measured.lost,
        measured.sent
    );
    if let Some(mtu) = measured.mtu_bytes {
        write!(line, ", mtu {}", length(Some(mtu))).ok();
    }
    if let Some(rate) = measured.rate_bps {
        write!(line, ", rate {}", bits(Some(rate))).ok();
    }
    line
}

/// Returns the table of paths, unreachable paths first.
pub fn table(paths: &PathTable) -> Vec<String> {
    if paths.is_empty() {
        return Vec::new();
    }
    let head = format!(
        "{:<20} {:>9} {:>9} {:>7} {:>6} {:>11} {:>11}",
        "PATH", "RTT", "JITTER", "LOSS", "MTU", "RATE", "COPY RATE"
    );
    let (up, down): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.is_up());
    let lines = down.into_iter().chain(up).map(row);
    std::iter::once(head).chain(lines).collect()
}

fn row(path: &PathStatus) -> String {
    let host = shown(path.last.host.as_bytes());
    if !path.is_up() {
        return format!("{host:<20} {}", fault(&path.last));
    }
    let of = |pick: fn(&PathMeasures) -> f64| path.measured.as_ref().map_or(0.0, pick);
    let loss = path.loss().unwrap_or_default() * 100.0;
    format!(
        "{host:<20} {:>9} {:>9} {:>7} {:>6} {:>11} {:>11}",
        millis(of(|measured| measured.rtt_min_s)),
        millis(of(|measured| measured.jitter_s)),
        format!("{loss:.1} %"),
        length(path.mtu_bytes),
        bits(path.rate_bps),
        bits(path.last.copy_rate_bps),
    )
}

fn fault(sample: &PathSample) -> String {
    let text = sample.fault.as_deref().unwrap_or("not reached");
    shown(text.as_bytes())
}

fn millis(seconds: f64) -> String {
    let millis = seconds * 1e3;
    let digits = if millis < 10.0 { 2 } else { 1 };
    format!("{millis:.digits$} ms")
}

/// Returns the longest packet, or `-` if it is not known or no datagram passes.
fn length(bytes: Option<u32>) -> String {
    let bytes = bytes.filter(|bytes| *bytes > 0);
    bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string())
}

fn bits(rate: Option<u64>) -> String {
    let rate = rate.filter(|rate| *rate > 0);
    rate.map_or_else(
        || "-".to_owned(),
        |rate| format!("{}b/s", bytes(rate as f64)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(host: &str) -> PathSample {
        PathSample {
            time_s: 1_764_187_200.5,
            host: host.to_owned(),
            measured: Some(PathMeasures {
                rtts_s: vec![0.073],
                rtt_min_s: 0.073,
                rtt_mean_s: 0.0732,
                rtt_max_s: 0.08,
                jitter_s: 0.0002,
                sent: 100,
                lost: 3,
                mtu_bytes: Some(1500),
                rate_bps: Some(700_000_000),
            }),
            copy_rate_bps: Some(590_000_000),
            ..PathSample::default()
        }
    }

    fn bad(host: &str) -> PathSample {
        PathSample {
            host: host.to_owned(),
            fault: Some("cannot reach\x1b[2J it".to_owned()),
            ..PathSample::default()
        }
    }

    #[test]
    fn line_has_the_measurements_of_the_probe() {
        let line = line(&good("far"));
        assert_eq!(
            line,
            "2025-11-26T20:00:00Z path far: rtt 73.0 ms, jitter 0.20 ms, 3 of 100 datagrams lost, mtu 1500, rate 700Mb/s"
        );
        let mut brief = good("far");
        let measured = brief.measured.as_mut().unwrap();
        (measured.mtu_bytes, measured.rate_bps) = (None, None);
        assert!(super::line(&brief).ends_with("3 of 100 datagrams lost"));
        let line = super::line(&bad("x\ny"));
        assert!(
            line.ends_with(r"path x\x0ay: cannot reach\x1b[2J it"),
            "{line}"
        );
    }

    #[test]
    fn table_begins_with_paths_that_failed() {
        let mut paths = PathTable::default();
        assert_eq!(table(&paths), Vec::<String>::new());
        paths.add(&good("far"));
        paths.add(&bad("near"));
        let lines = table(&paths);
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[0].starts_with("PATH "), "{lines:#?}");
        assert!(
            lines[0].len() <= 80 && lines[2].len() == lines[0].len(),
            "{lines:#?}"
        );
        assert!(lines[1].starts_with("near ") && lines[1].contains("cannot reach"));
        for word in [
            "far", "73.0 ms", "0.20 ms", "3.0 %", "1500", "700Mb/s", "590Mb/s",
        ] {
            assert!(lines[2].contains(word), "{word}: {lines:#?}");
        }
    }

    #[test]
    fn unknown_values_are_dashes() {
        assert_eq!((length(None), length(Some(0))), ("-".into(), "-".into()));
        assert_eq!((bits(None), bits(Some(0))), ("-".into(), "-".into()));
        assert_eq!(millis(0.009_99), "9.99 ms");
        assert_eq!(millis(0.01), "10.0 ms");
    }
}
