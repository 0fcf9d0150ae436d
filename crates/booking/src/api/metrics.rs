//! What the scheduler counts, for Prometheus: base units, and `lighthaul_scheduler_` in front of every name.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// What is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Callers choose none of its labels: a method is one that is known, a route one of those that there are.
    requests: Family<[(&'static str, String); 3], Counter>,
    taken: Histogram,
    changes: Family<[(&'static str, &'static str); 1], Counter>,
    seats: Gauge,
}

impl Metrics {
    /// Counters that stand at nothing.
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("lighthaul_scheduler"),
            requests: Family::default(),
            // from a millisecond to some 16 s
            taken: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            changes: Family::default(),
            seats: Gauge::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The program", version);
        registry.register(
            "requests",
            "Requests that were answered, by method, route and HTTP status",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "How long requests took",
            Unit::Seconds,
            self.taken.clone(),
        );
        registry.register(
            "changes",
            "Changes of the books that were asked for, by outcome",
            self.changes.clone(),
        );
        registry.register(
            "listener_seats",
            "How many more may listen to changes",
            self.seats.clone(),
        );
        self
    }

    /// A request was answered.
    pub(crate) fn count(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let labels = [
            ("method", method.to_owned()),
            ("route", route.to_owned()),
            ("status", status.to_string()),
        ];
        self.requests.get_or_create(&labels).inc();
        self.taken.observe(took.as_secs_f64());
    }

    /// Somebody asked for a change, which was made or refused.
    pub(crate) fn change(&self, outcome: &'static str) {
        self.changes.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// All of it, with so many seats left for those who listen.
    pub(crate) fn print(&self, seats: usize) -> Result<String, fmt::Error> {
        self.seats.set(i64::try_from(seats).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
