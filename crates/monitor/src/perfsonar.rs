//! Probes as test results of perfSONAR, in the shape in which pScheduler passes them to archives.
//!
//! Each result names its schedule, its test with the specification, the tool and the participants, and has the `result`
//! of that test. A probe has an `rtt` and a `latency` test, whose packets show the loss. A full one also has an `mtu`
//! and a `throughput` test. A probe that failed is an `rtt` test that did not succeed. Durations and times are in ISO
//! 8601.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::path::{PathMeasures, PathSample};

/// Returns the results of the tests of a probe.
pub fn results(sample: &PathSample) -> Vec<Value> {
    let Some(measured) = &sample.measured else {
        let why = sample.fault.as_deref().unwrap_or_default();
        let result = json!({
            "schema": 1, "succeeded": false, "error": why, "roundtrips": [], "loss": 1.0,
        });
        return vec![record(sample, "rtt", "dest", &result)];
    };
    let mut results = vec![
        record(sample, "rtt", "dest", &rtt(measured)),
        record(sample, "latency", "dest", &latency(measured)),
    ];
    if let Some(bytes) = measured.mtu_bytes.filter(|bytes| *bytes > 0) {
        let result = json!({"schema": 1, "succeeded": true, "mtu": bytes});
        results.push(record(sample, "mtu", "dest", &result));
    }
    if let Some(rate) = measured.rate_bps {
        results.push(record(
            sample,
            "throughput",
            "destination",
            &throughput(rate),
        ));
    }
    results
}

/// Returns the record of one test. `dest` is the name of the field with the daemon in the specification.
fn record(sample: &PathSample, kind: &str, dest: &str, result: &Value) -> Value {
    let text = |address: Option<std::net::IpAddr>| address.map(|address| address.to_string());
    let source = text(sample.local);
    let target = text(sample.address).unwrap_or_else(|| sample.host.clone());
    let start = Timestamp::from_millisecond((sample.time_s * 1e3) as i64);
    let mut spec = json!({"schema": 1, dest: target});
    if let Some(source) = &source {
        spec["source"] = json!(source);
    }
    if kind == "throughput" {
        spec["udp"] = json!(true);
    }
    json!({
        "schedule": {
            "start": start.map(|time| time.to_string()).unwrap_or_default(),
            "duration": duration(0.0),
        },
        "test": {"type": kind, "spec": spec},
        "tool": {"name": "lighthaul", "version": env!("CARGO_PKG_VERSION")},
        "participants": [source, sample.host],
        "result": result,
    })
}

fn rtt(measured: &PathMeasures) -> Value {
    let trips = measured.rtts_s.iter().zip(1..);
    let trips = trips.map(|(rtt, seq): (&f64, u32)| json!({"seq": seq, "rtt": duration(*rtt)}));
    let trips: Vec<Value> = trips.collect();
    let count = trips.len();
    json!({
        "schema": 1, "succeeded": true, "roundtrips": trips, "sent": count, "received": count, "lost": 0,
        "reorders": 0, "duplicates": 0, "loss": 0.0, "min": duration(measured.rtt_min_s),
        "mean": duration(measured.rtt_mean_s), "max": duration(measured.rtt_max_s),
        "stddev": duration(deviation(&measured.rtts_s)),
    })
}

fn latency(measured: &PathMeasures) -> Value {
    let received = measured.sent.saturating_sub(measured.lost);
    json!({
        "schema": 1, "succeeded": true, "packets-sent": measured.sent, "packets-received": received,
        "packets-lost": measured.lost, "packets-duplicated": 0, "packets-reordered": 0,
        "histogram-latency": {}, "histogram-ttl": {},
    })
}

fn throughput(bps: u64) -> Value {
    let data = json!({
        "throughput-bits": bps, "throughput-bytes": bps / 8, "start": 0, "end": 0, "stream-id": 1,
        "sent": null, "lost": null, "jitter": null,
    });
    json!({
        "schema": 1, "succeeded": true, "diag": "train of datagrams", "intervals": [],
        "summary": {"streams": [data], "summary": data},
    })
}

/// Returns the standard deviation.
fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    (squares.sum::<f64>() / count).sqrt()
}

/// Returns a duration in ISO 8601, with microseconds.
fn duration(seconds: f64) -> String {
    let text = format!("{seconds:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("PT{text}S")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> PathSample {
        PathSample {
            time_s: 1_764_187_200.5,
            host: "far:4811".to_owned(),
            local: Some("192.0.2.1".parse().unwrap()),
            address: Some("192.0.2.7".parse().unwrap()),
            measured: Some(PathMeasures {
                rtts_s: vec![0.01, 0.03],
                rtt_min_s: 0.01,
                rtt_mean_s: 0.02,
                rtt_max_s: 0.03,
                jitter_s: 0.02,
                sent: 100,
                lost: 4,
                mtu_bytes: Some(1500),
                rate_bps: Some(8000),
            }),
            ..PathSample::default()
        }
    }

    /// Returns the types and the results of the tests.
    fn tests(sample: &PathSample) -> Vec<(String, Value)> {
        let results = results(sample).into_iter();
        let test = |record: Value| {
            assert_eq!(record["tool"]["name"], "lighthaul");
            assert_eq!(record["participants"][1], "far:4811");
            assert_eq!(record["test"]["spec"]["schema"], 1);
            let kind = record["test"]["type"].as_str().unwrap().to_owned();
            (kind, record["result"].clone())
        };
        results.map(test).collect()
    }

    #[test]
    fn full_probe_has_four_tests_with_the_fields_of_their_schemas() {
        let tests = tests(&sample());
        let kinds: Vec<&str> = tests.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["rtt", "latency", "mtu", "throughput"]);
        let rtt = json!({
            "schema": 1, "succeeded": true, "sent": 2, "received": 2, "lost": 0, "reorders": 0, "duplicates": 0,
            "loss": 0.0, "min": "PT0.01S", "mean": "PT0.02S", "max": "PT0.03S", "stddev": "PT0.01S",
            "roundtrips": [{"seq": 1, "rtt": "PT0.01S"}, {"seq": 2, "rtt": "PT0.03S"}],
        });
        assert_eq!(tests[0].1, rtt);
        let latency = json!({
            "schema": 1, "succeeded": true, "packets-sent": 100, "packets-received": 96, "packets-lost": 4,
            "packets-duplicated": 0, "packets-reordered": 0, "histogram-latency": {}, "histogram-ttl": {},
        });
        assert_eq!(tests[1].1, latency);
        let mtu = json!({"schema": 1, "succeeded": true, "mtu": 1500});
        assert_eq!(tests[2].1, mtu);
        let throughput = &tests[3].1;
        for field in ["succeeded", "diag", "intervals", "summary"] {
            assert!(
                !throughput[field].is_null(),
                "{field} is required: {throughput}"
            );
        }
        let summary = &throughput["summary"]["summary"];
        assert_eq!(summary["throughput-bits"], 8000);
        assert_eq!(summary["throughput-bytes"], 1000);
        assert_eq!(throughput["summary"]["streams"][0], *summary);
    }

    #[test]
    fn specification_names_both_ends() {
        let records = results(&sample());
        let rtt = &records[0];
        assert_eq!(rtt["test"]["spec"]["source"], "192.0.2.1");
        assert_eq!(rtt["test"]["spec"]["dest"], "192.0.2.7");
        assert_eq!(rtt["participants"][0], "192.0.2.1");
        assert_eq!(rtt["schedule"]["start"], "2025-11-26T20:00:00.5Z");
        let throughput = &records[3]["test"]["spec"];
        assert_eq!(throughput["destination"], "192.0.2.7");
        assert_eq!(throughput["udp"], true);
        assert!(rtt["test"]["spec"]["udp"].is_null());
    }

    #[test]
    fn brief_and_failed_probes_have_fewer_tests() {
        let mut brief = sample();
        let measured = brief.measured.as_mut().unwrap();
        (measured.mtu_bytes, measured.rate_bps) = (None, None);
        assert_eq!(tests(&brief).len(), 2);
        brief.measured.as_mut().unwrap().mtu_bytes = Some(0);
        assert_eq!(tests(&brief).len(), 2, "no datagram passes");
        let failed = PathSample {
            measured: None,
            local: None,
            address: None,
            fault: Some("cannot reach it".to_owned()),
            ..sample()
        };
        let result = json!({
            "schema": 1, "succeeded": false, "error": "cannot reach it", "roundtrips": [], "loss": 1.0,
        });
        assert_eq!(tests(&failed), [("rtt".to_owned(), result)]);
        let record = &results(&failed)[0];
        assert_eq!(record["test"]["spec"]["dest"], "far:4811");
        assert!(record["participants"][0].is_null());
    }

    #[test]
    fn durations_are_in_iso_8601() {
        for (seconds, text) in [
            (0.0, "PT0S"),
            (1.0, "PT1S"),
            (10.0, "PT10S"),
            (0.073_1, "PT0.0731S"),
            (0.000_001, "PT0.000001S"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        assert!(deviation(&[]).abs() < 1e-9);
    }
}
