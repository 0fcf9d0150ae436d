//! Prometheus metrics of a daemon, in base units and with the prefix `lighthaul_`.
//!
//! `Metrics` has the counters, and `page` returns them as `OpenMetrics` text for the exporter. A
//! session owns a `Meter`, which adds its progress and subtracts its rate when it ends. Directions
//! are those of the daemon: `in` receives files, `out` sends them. Sessions of other kinds have
//! series of their own, such as `stream`. Numbers that a client claims are limited, so that it cannot
//! falsify the sums of others. Labels take few values, and none comes from a client.

use std::fmt;
use std::sync::Arc;

use lighthaul_copy::watch::{CopyEvent, CopyProgress, Failed, Summary};
use lighthaul_session::error::Code;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::exporter::MetricsPage;
use crate::gateway_links::GatewayLinks;

/// Counters by one label.
type LabeledCounter<V> = Family<[(&'static str, V); 1], Counter>;

/// Metrics of a daemon.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    registry: Registry,
    sessions: Gauge,
    ended: LabeledCounter<u8>,
    refused: LabeledCounter<&'static str>,
    bytes: LabeledCounter<&'static str>,
    entries: LabeledCounter<&'static str>,
    failures: LabeledCounter<u8>,
    rate: Gauge,
    datagrams: LabeledCounter<&'static str>,
}

/// Reason for the refusal of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// The connection was closed to make room for other connections.
    Evicted,
    /// The client showed no key.
    Handshake,
    /// The client's key is not allowed.
    Key,
    /// No resources are free for a session.
    Busy,
}

impl Metrics {
    /// Creates the metrics of a gateway and its daemon.
    pub(crate) fn of_gateway(gateways: Arc<GatewayLinks>) -> Self {
        let mut metrics = Self::new();
        let registry = metrics.registry.sub_registry_with_prefix("gateway");
        registry.register_collector(Box::new(gateways));
        metrics
    }

    /// Creates counters that are zero.
    pub(crate) fn new() -> Self {
        let mut metrics = Self::default();
        let mut registry = Registry::with_prefix("lighthaul");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of the program", version);
        registry.register("sessions", "Running sessions", metrics.sessions.clone());
        registry.register(
            "sessions_ended",
            "Ended sessions by exit status; 0 is success",
            metrics.ended.clone(),
        );
        registry.register(
            "refused",
            "Refused clients by reason",
            metrics.refused.clone(),
        );
        registry.register_with_unit(
            "transferred",
            "Received bytes of objects: by the daemon (in, and expect from another host), by a client (out), \
             in streams (stream); the directions probe, files and gateway have no bytes",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register(
            "entries",
            "Published files, directories and links",
            metrics.entries.clone(),
        );
        registry.register(
            "entries_failed",
            "Files that could not be published, by exit status",
            metrics.failures.clone(),
        );
        registry.register_with_unit(
            "rate",
            "Sum of the sending rates of running transfers",
            Unit::Other("bytes_per_second".to_owned()),
            metrics.rate.clone(),
        );
        registry.register(
            "datagrams",
            "Datagrams: sent, retransmitted (resent), dropped by a full buffer (dropped), of other senders (foreign)",
            metrics.datagrams.clone(),
        );
        metrics.registry = registry;
        metrics
    }

    /// Counts refused clients.
    pub(crate) fn refuse(&self, why: Refusal, count: u64) {
        if count == 0 {
            return;
        }
        let why = match why {
            Refusal::Evicted => "evicted",
            Refusal::Handshake => "handshake",
            Refusal::Key => "key",
            Refusal::Busy => "busy",
        };
        self.refused.get_or_create(&[("reason", why)]).inc_by(count);
    }

    /// Starts to count a session with files in the given direction.
    pub(crate) fn meter(&self, direction: &'static str) -> Meter<'_> {
        self.sessions.inc();
        Meter {
            metrics: self,
            direction,
            seen: CopyProgress::default(),
            rate: 0,
        }
    }
}

impl MetricsPage for Metrics {
    fn page(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Counters of one running session.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    metrics: &'a Metrics,
    direction: &'static str,
    seen: CopyProgress,
    rate: i64,
}

impl Meter<'_> {
    /// Counts the progress since the last call.
    pub(crate) fn observe(&mut self, sight: &CopyEvent) {
        match sight {
            CopyEvent::Started(start) => {
                // a higher rate means no limit, or is a false claim
                let rate = start.rate_bps.filter(|rate| *rate <= RATE_MAX);
                let rate = i64::try_from(rate.unwrap_or(0) / 8).unwrap_or(0);
                self.metrics.rate.inc_by(rate - self.rate);
                self.rate = rate;
            }
            CopyEvent::Moving(motion) => self.count(*motion),
            CopyEvent::Round { .. }
            | CopyEvent::Current(_)
            | CopyEvent::Diverted(_)
            | CopyEvent::Chosen(..)
            | CopyEvent::Changed(_)
            | CopyEvent::Warning(_)
            | CopyEvent::Planned(_)
            | CopyEvent::Done(_)
            | CopyEvent::Removed(_)
            | CopyEvent::Hashed(_)
            | CopyEvent::CircuitReleased
            | CopyEvent::Failed(_) => {}
        }
    }

    /// Counts the end of the session.
    pub(crate) fn end(&mut self, result: Result<&Summary, Code>) {
        let code = match result {
            Ok(summary) => {
                self.count(summary.motion);
                let direction = [("direction", self.direction)];
                let entries = self.metrics.entries.get_or_create(&direction);
                entries.inc_by(summary.entries);
                for Failed { code, .. } in &summary.failures {
                    // unknown codes count as one
                    let code = Code::from_number(*code) as u8;
                    self.metrics.failures.get_or_create(&[("code", code)]).inc();
                }
                0
            }
            Err(code) => code as u8,
        };
        self.metrics.ended.get_or_create(&[("code", code)]).inc();
    }

    fn count(&mut self, mut motion: CopyProgress) {
        if self.direction == "out" {
            // the receiver's claims about received and lost datagrams are limited by those that were sent
            motion.buffer_drops = motion.buffer_drops.min(motion.sent);
            motion.foreign = motion.foreign.min(motion.sent);
        }
        let direction = [("direction", self.direction)];
        let bytes = self.metrics.bytes.get_or_create(&direction);
        bytes.inc_by(motion.done.saturating_sub(self.seen.done));
        for (kind, now, before) in [
            ("sent", motion.sent, self.seen.sent),
            ("resent", motion.resent, self.seen.resent),
            ("dropped", motion.buffer_drops, self.seen.buffer_drops),
            ("foreign", motion.foreign, self.seen.foreign),
        ] {
            let datagrams = self.metrics.datagrams.get_or_create(&[("kind", kind)]);
            datagrams.inc_by(now.saturating_sub(before));
        }
        self.seen = motion;
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.metrics.rate.dec_by(self.rate);
        self.metrics.sessions.dec();
    }
}

/// Maximum rate of a session that is counted, in bits a second.
const RATE_MAX: u64 = 10_000_000_000_000;

#[cfg(test)]
mod tests {
    use lighthaul_copy::watch::Start;

    use super::*;

    #[test]
    fn false_claims_of_a_client_are_not_counted() {
        let metrics = Metrics::new();
        let has = |line: &str| {
            let text = metrics.page().unwrap();
            assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
        };
        let mut meters: Vec<_> = (0..8).map(|_| metrics.meter("out")).collect();
        for meter in &mut meters {
            meter.observe(&CopyEvent::Started(Start {
                protocol: "rbudp".to_owned(),
                rate_bps: Some(u64::MAX),
                packet_len: 8192,
                cipher: "plain".to_owned(),
                digest: "none".to_owned(),
                start_up: std::time::Duration::ZERO,
            }));
            meter.observe(&CopyEvent::Moving(CopyProgress {
                sent: 10,
                buffer_drops: u64::MAX,
                foreign: 1 << 40,
                ..CopyProgress::default()
            }));
            meter.end(Ok(&Summary {
                motion: CopyProgress {
                    sent: 10,
                    buffer_drops: 3,
                    ..CopyProgress::default()
                },
                failures: (0..=255)
                    .map(|code| Failed {
                        path: Vec::new(),
                        code,
                        why: String::new(),
                    })
                    .collect(),
                ..Summary::default()
            }));
        }
        has("lighthaul_rate_bytes_per_second 0");
        has("lighthaul_datagrams_total{kind=\"dropped\"} 80");
        has("lighthaul_datagrams_total{kind=\"foreign\"} 80");
        let text = metrics.page().unwrap();
        let codes = text
            .lines()
            .filter(|line| line.starts_with("lighthaul_entries_failed_total{"));
        assert!(codes.count() < 16, "{text}");
    }

    #[test]
    fn help_text_names_every_direction() {
        let metrics = Metrics::new();
        // a family without series is not printed
        let mut meter = metrics.meter("in");
        meter.observe(&CopyEvent::Moving(CopyProgress {
            sent: 10,
            ..CopyProgress::default()
        }));
        meter.end(Ok(&Summary::default()));
        let text = metrics.page().unwrap();
        let help = text
            .lines()
            .find(|line| line.starts_with("# HELP lighthaul_transferred"));
        let help = help.unwrap();
        for direction in ["in", "out", "expect", "stream", "probe", "files", "gateway"] {
            let mut words = help.split(|c: char| !c.is_ascii_alphabetic());
            assert!(words.any(|word| word == direction), "{direction}: {help}");
        }
    }

    #[test]
    fn sessions_are_counted_while_they_run_and_at_their_end() {
        let metrics = Metrics::new();
        let has = |line: &str| {
            let text = metrics.page().unwrap();
            assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
        };
        let mut meter = metrics.meter("in");
        let motion = |done, resent| CopyProgress {
            done,
            resent,
            ..CopyProgress::default()
        };
        meter.observe(&CopyEvent::Moving(motion(10, 1)));
        meter.observe(&CopyEvent::Moving(motion(30, 1)));
        has("lighthaul_sessions 1");
        has("lighthaul_transferred_bytes_total{direction=\"in\"} 30");
        let summary = Summary {
            entries: 3,
            motion: motion(40, 2),
            failures: vec![Failed {
                path: b"x".to_vec(),
                code: 24,
                why: "changed".to_owned(),
            }],
            ..Summary::default()
        };
        meter.end(Ok(&summary));
        drop(meter);
        metrics.meter("out").end(Err(Code::Network));
        metrics.refuse(Refusal::Key, 1);
        for line in [
            "lighthaul_sessions 0",
            "lighthaul_sessions_ended_total{code=\"0\"} 1",
            "lighthaul_sessions_ended_total{code=\"10\"} 1",
            "lighthaul_refused_total{reason=\"key\"} 1",
            "lighthaul_transferred_bytes_total{direction=\"in\"} 40",
            "lighthaul_entries_total{direction=\"in\"} 3",
            "lighthaul_entries_failed_total{code=\"24\"} 1",
            "lighthaul_datagrams_total{kind=\"resent\"} 2",
            "lighthaul_rate_bytes_per_second 0",
        ] {
            has(line);
        }
    }
}
