//! Latencies of messages and objects.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::message::Report;

/// Histogram of latencies, accurate to a thousandth.
#[derive(Debug)]
pub struct Meter(Histogram<u64>);

impl Default for Meter {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3);
        Self(histogram.expect("the bounds are in order"))
    }
}

impl Meter {
    /// Adds one latency.
    pub fn note(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.max(1));
    }

    /// Writes the latencies to `report`.
    pub fn fill(&self, report: &mut Report) {
        report.latency_p50_us = self.0.value_at_quantile(0.5);
        report.latency_p99_us = self.0.value_at_quantile(0.99);
        report.latency_max_us = self.0.max();
    }
}

/// Longest latency, one hour; longer latencies count as one hour.
const LATENCY_MAX_US: u64 = 3_600_000_000;
