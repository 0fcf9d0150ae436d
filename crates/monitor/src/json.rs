//! Rates and probes as JSON objects: the events `sample` and `path_probe`.
//!
//! `crates/cli/schema/events.v1.json` describes the fields. Names that end in `_s` are seconds,
//! `_bytes` bytes, and `_per_s` events or bytes per second. `cpu`, `cores`, `pressure`, `busy` and
//! `run_delay` are fractions of time between 0 and 1. A part that the kernel does not count is
//! null.

use serde::Serialize;
use serde_json::{Value, json};

use crate::path::PathSample;
use crate::rates::Rates;

/// Returns the event of an interval.
pub fn event(rates: &Rates) -> Value {
    with_fields("sample", rates)
}

/// Returns the event of a probe.
pub fn path_event(sample: &PathSample) -> Value {
    with_fields("path_probe", sample)
}

fn with_fields(kind: &str, fields: &impl Serialize) -> Value {
    let mut event = json!({"v": 1, "type": kind});
    let fields = serde_json::to_value(fields).unwrap_or_default();
    if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
        event.extend(fields);
    }
    event
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lighthaul_io::host::clock::Clock;
    use lighthaul_io::host::wait::pause;

    use super::*;
    use crate::sample::host::Sampler;

    #[test]
    fn event_of_this_host_keeps_its_rates() {
        let sampler = Sampler::new(Clock::start());
        let before = sampler.sample();
        pause(Duration::from_millis(30));
        let rates = Rates::between(&before, &sampler.sample());
        let text = event(&rates).to_string();
        assert!(text.contains(r#""type":"sample""#), "{text}");
        let read: Rates = serde_json::from_str(&text).unwrap();
        assert_eq!(read, rates);
    }

    #[test]
    fn event_of_a_probe_keeps_its_fields() {
        let sample = PathSample {
            host: "far".to_owned(),
            fault: Some("no answer".to_owned()),
            ..PathSample::default()
        };
        let text = path_event(&sample).to_string();
        assert!(text.contains(r#""type":"path_probe""#), "{text}");
        let read: PathSample = serde_json::from_str(&text).unwrap();
        assert_eq!(read, sample);
    }
}
