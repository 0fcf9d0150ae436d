//! How old messages and objects were when they came.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::message::Report;

/// Counts latencies within a thousandth of themselves, in little memory.
#[derive(Debug)]
pub struct Meter(Histogram<u64>);

impl Default for Meter {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3);
        Self(histogram.expect("the bounds are in order"))
    }
}

impl Meter {
    /// Notes one.
    pub fn note(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.max(1));
    }

    /// Fills in what it has seen.
    pub fn fill(&self, report: &mut Report) {
        report.latency_p50_us = self.0.value_at_quantile(0.5);
        report.latency_p99_us = self.0.value_at_quantile(0.99);
        report.latency_max_us = self.0.max();
    }
}

/// An hour; what takes longer counts as this.
const LATENCY_MAX_US: u64 = 3_600_000_000;
