//! Prometheus metrics of links between gateways.
//!
//! [`GatewayLinks`] is a collector: it reads the counters of all links at each scrape, and stores
//! nothing. A row of `COLUMNS` defines one metric. Labels are the number of the link, its peer and
//! its side. Names have the prefix `lighthaul_gateway_`. Units are bytes, bytes per second and
//! seconds. [`export`] serves a gateway without a daemon; a daemon adds the collector to its own
//! `Metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};

use lighthaul_gateway::status::LinkSnapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::exporter;
use crate::gateway_links::GatewayLinks;
use crate::link_status::LinkStatus;
use crate::metrics::Metrics;

/// Serves `/metrics` for a gateway that has no daemon. Returns the address of the listener.
pub fn export(address: SocketAddr, gateways: &Arc<GatewayLinks>) -> io::Result<SocketAddr> {
    exporter::start(address, Arc::new(Metrics::of_gateway(Arc::clone(gateways))))
}

impl Collector for GatewayLinks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let links = self.links();
        for column in COLUMNS {
            column.encode(&links, &mut encoder)?;
        }
        Ok(())
    }
}

/// Metric of each link.
struct Column {
    name: &'static str,
    help: &'static str,
    unit: Option<fn() -> Unit>,
    /// True for a counter, false for a gauge.
    grows: bool,
    /// Returns the values of a link, each with a label if there are several values.
    values: fn(&LinkSnapshot) -> Vec<(&'static str, u64)>,
    label: &'static str,
}

impl Column {
    const fn gauge(name: &'static str, help: &'static str, values: Values) -> Self {
        Self {
            name,
            help,
            unit: None,
            grows: false,
            values,
            label: "",
        }
    }

    const fn counter(name: &'static str, help: &'static str, values: Values) -> Self {
        let grows = true;
        Self {
            grows,
            ..Self::gauge(name, help, values)
        }
    }

    const fn by(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    const fn in_unit(self, unit: fn() -> Unit) -> Self {
        Self {
            unit: Some(unit),
            ..self
        }
    }

    fn encode(&self, links: &[LinkStatus], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = if self.grows {
            MetricType::Counter
        } else {
            MetricType::Gauge
        };
        let unit = self.unit.map(|unit| unit());
        let mut family = encoder.encode_descriptor(self.name, self.help, unit.as_ref(), kind)?;
        for (number, link) in links.iter().enumerate() {
            let number = number.to_string();
            for (which, value) in (self.values)(&link.counters) {
                let mut labels = vec![
                    ("link", number.as_str()),
                    ("peer", link.peer.as_str()),
                    ("side", link.side()),
                ];
                if !self.label.is_empty() {
                    labels.push((self.label, which));
                }
                let labels = labels.as_slice();
                let one = family.encode_family(&labels)?;
                if self.grows {
                    ConstCounter::new(value).encode(one)?;
                } else {
                    let value = i64::try_from(value).unwrap_or(i64::MAX);
                    ConstGauge::new(value).encode(one)?;
                }
            }
        }
        Ok(())
    }
}

type Values = fn(&LinkSnapshot) -> Vec<(&'static str, u64)>;

const COLUMNS: [Column; 13] = [
    Column::gauge(
        "connected",
        "1 while the link has a connection, else 0",
        |link| vec![("", link.connected.into())],
    ),
    Column::counter("reconnections", "Connections after the first one", |link| {
        vec![("", link.reconnections)]
    }),
    Column::gauge("sessions", "Current sessions of programs", |link| {
        vec![("", link.sessions)]
    }),
    Column::counter(
        "sessions_ended",
        "Ended sessions: closed in order (order), refused by the target (refused), reset (reset)",
        |link| {
            vec![
                ("order", link.sessions_ended),
                ("refused", link.sessions_refused),
                ("reset", link.sessions_broken),
            ]
        },
    )
    .by("how"),
    Column::counter(
        "carried",
        "Bytes read from local programs (out) and written to them (in)",
        |link| vec![("out", link.read), ("in", link.wrote)],
    )
    .by("direction")
    .in_unit(|| Unit::Bytes),
    Column::counter("slabs", "Formed slabs", |link| vec![("", link.slabs_sent)]),
    Column::gauge(
        "slabs_held",
        "Sent slabs that the other gateway has not taken custody of",
        |link| vec![("", link.slabs_held)],
    ),
    Column::counter(
        "datagrams",
        "Datagrams: sent, retransmitted (resent; also counted as sent), received",
        |link| {
            vec![
                ("sent", link.datagrams_sent),
                ("resent", link.datagrams_resent),
                ("received", link.datagrams_received),
            ]
        },
    )
    .by("kind"),
    Column::gauge(
        "memory",
        "Memory for outgoing (out) and incoming (in) bytes",
        |link| vec![("out", link.memory_out), ("in", link.memory_in)],
    )
    .by("direction")
    .in_unit(|| Unit::Bytes),
    Column::gauge(
        "credit_pages",
        "Pages that the other gateway has room for",
        |link| vec![("", link.credit)],
    ),
    Column::counter(
        "tokens",
        "Tokens of a cluster: received (taken), and created again after a loss (made)",
        |link| vec![("taken", link.tokens_taken), ("made", link.tokens_made)],
    )
    .by("how"),
    Column::counter(
        "turns",
        "Time in which this gateway of its cluster held the token",
        |link| vec![("", link.turns.as_secs())],
    )
    .in_unit(|| Unit::Seconds),
    Column::gauge(
        "rate",
        "Current rate of the channel; 0 without a limit",
        |link| vec![("", link.rate_bps / 8)],
    )
    .in_unit(|| Unit::Other("bytes_per_second".to_owned())),
];
