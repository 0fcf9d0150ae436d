//! Prometheus metrics, in base units, with the prefix `lighthaul_scheduler_`.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Metrics of the scheduler.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Clients cannot create labels: methods and routes are from fixed sets.
    requests: Family<[(&'static str, String); 3], Counter>,
    taken: Histogram,
    changes: Family<[(&'static str, &'static str); 1], Counter>,
    slots: Gauge,
    queue: Gauge,
}

impl Metrics {
    /// Returns metrics that are all zero.
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("lighthaul_scheduler"),
            requests: Family::default(),
            // 1 ms to about 16 s
            taken: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            changes: Family::default(),
            slots: Gauge::default(),
            queue: Gauge::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of the program", version);
        registry.register(
            "requests",
            "Requests by method, route and HTTP status",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "Duration of requests",
            Unit::Seconds,
            self.taken.clone(),
        );
        registry.register(
            "changes",
            "Requested changes of the books by outcome",
            self.changes.clone(),
        );
        registry.register(
            "listener_seats",
            "Free slots for event streams",
            self.slots.clone(),
        );
        registry.register(
            "queue_up",
            "1 if the queue of jobs works or there is none, 0 if it fails",
            self.queue.clone(),
        );
        self
    }

    /// Counts a request.
    pub(crate) fn count(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let labels = [
            ("method", method.to_owned()),
            ("route", route.to_owned()),
            ("status", status.to_string()),
        ];
        self.requests.get_or_create(&labels).inc();
        self.taken.observe(took.as_secs_f64());
    }

    /// Counts a change by its outcome.
    pub(crate) fn change(&self, outcome: &'static str) {
        self.changes.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Returns all metrics as text, with the number of free event streams. `queue_works` is false if a queue fails.
    pub(crate) fn print(&self, slots: usize, queue_works: bool) -> Result<String, fmt::Error> {
        self.queue.set(queue_works.into());
        self.slots.set(i64::try_from(slots).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
