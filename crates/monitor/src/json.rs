//! Rates as a JSON object: the event `sample`.
//!
//! `crates/cli/schema/events.v1.json` describes the fields. Names that end in `_s` are seconds,
//! `_bytes` bytes, and `_per_s` events or bytes per second. `cpu`, `cores`, `pressure`, `busy` and
//! `run_delay` are fractions of time between 0 and 1. A part that the kernel does not count is
//! null.

use serde_json::{Value, json};

use crate::rates::Rates;

/// Returns the event of an interval.
pub fn event(rates: &Rates) -> Value {
    let mut event = json!({"v": 1, "type": "sample"});
    let fields = serde_json::to_value(rates).unwrap_or_default();
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
}
