//! Metrics of this host and its paths, for Prometheus and OpenTelemetry.
//!
//! [`MonitorMetrics`] keeps the last sample and the state of all paths, and [`MonitorMetrics::families`] returns them as
//! named values in base units. Counters are those of the kernel since the host started, so that a scraper computes rates
//! over any time; those of probes count since the monitor started. [`MonitorMetrics::page`] is the text that Prometheus
//! reads, with the prefix `lighthaul_`. Labels are devices and names of daemons.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::path::{PathMeasures, PathSample, PathStatus, PathTable};
use crate::sample::cpu::CpuTimes;
use crate::sample::host::Sample;
use crate::sample::interface::TrafficCounters;
use crate::sample::udp::UdpCounters;

/// Last sample of this host, and the states of its paths.
#[derive(Debug, Default)]
pub struct MonitorMetrics(Mutex<State>);

#[derive(Clone, Debug, Default)]
struct State {
    sample: Sample,
    paths: PathTable,
}

/// Metric with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Name without a prefix and without its unit.
    pub name: &'static str,
    /// Meaning.
    pub help: &'static str,
    /// Unit, as in `bytes`; empty for numbers and fractions.
    pub unit: &'static str,
    /// True for a counter, false for a gauge.
    pub grows: bool,
    /// Values.
    pub points: Vec<Point>,
}

/// Value of a metric, with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// Value.
    pub value: f64,
}

impl MonitorMetrics {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sample of the host.
    pub fn set_sample(&self, sample: &Sample) {
        self.lock().sample = sample.clone();
    }

    /// Takes the result of a probe.
    pub fn add_path(&self, sample: &PathSample) {
        self.lock().paths.add(sample);
    }

    /// Returns the states of all paths.
    pub fn paths(&self) -> PathTable {
        self.lock().paths.clone()
    }

    /// Returns all metrics. One without values is left out.
    pub fn families(&self) -> Vec<Family> {
        let state = self.lock().clone();
        let mut families = all(&state);
        families.retain(|family| !family.points.is_empty());
        families
    }

    /// Returns all metrics that there may be, without values.
    pub fn descriptions() -> Vec<Family> {
        all(&State::default())
    }

    /// Returns all metrics in the format of `OpenMetrics`.
    pub fn page(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("lighthaul");
        let mut families = vec![build()];
        families.extend(self.families());
        registry.register_collector(Box::new(Families(families)));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// Metrics of one scrape.
#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let kind = if family.grows {
                MetricType::Counter
            } else {
                MetricType::Gauge
            };
            let unit = (!family.unit.is_empty()).then(|| Unit::Other(family.unit.to_owned()));
            let mut points =
                encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
            if let [Point { labels, value }] = family.points.as_slice()
                && labels.is_empty()
            {
                family.encode(*value, points)?;
                continue;
            }
            for Point { labels, value } in &family.points {
                let labels = labels.as_slice();
                family.encode(*value, points.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Returns a metric without values.
const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family {
        name,
        help,
        unit,
        grows: true,
        points: Vec::new(),
    }
}

const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family {
        name,
        help,
        unit,
        grows: false,
        points: Vec::new(),
    }
}

impl Family {
    fn encode(&self, value: f64, to: MetricEncoder<'_>) -> fmt::Result {
        if self.grows {
            ConstCounter::new(value).encode(to)
        } else {
            ConstGauge::new(value).encode(to)
        }
    }

    /// Adds a value.
    fn add<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: f64) {
        let labels = labels.map(|(name, value)| (name, value.to_owned()));
        self.points.push(Point {
            labels: labels.into(),
            value,
        });
    }
}

/// Returns the version. A gauge has the same name and value as the type `info`, which older tools do not know.
fn build() -> Family {
    let mut family = gauge("build_info", "", "Version of the program");
    family.add([("version", env!("CARGO_PKG_VERSION"))], 1.0);
    family
}

fn all(state: &State) -> Vec<Family> {
    let mut families = host(&state.sample);
    families.extend(paths(&state.paths));
    families
}

/// Returns the metrics of the host.
fn host(sample: &Sample) -> Vec<Family> {
    let mut families = vec![
        processors(sample),
        pressure(sample),
        memory(sample),
        udp(sample),
        softnet(sample),
    ];
    families.extend(disks(sample));
    families.extend(interfaces(sample));
    families
}

fn processors(sample: &Sample) -> Family {
    let mut family = counter("host_cpu", "seconds", "Time of each processor by mode");
    for (core, times) in &sample.cores {
        let cpu = core.to_string();
        let CpuTimes {
            user,
            system,
            iowait,
            softirq,
            steal,
            idle,
        } = times;
        for (mode, ticks) in [
            ("user", user),
            ("system", system),
            ("iowait", iowait),
            ("softirq", softirq),
            ("steal", steal),
            ("idle", idle),
        ] {
            family.add([("cpu", &cpu), ("mode", mode)], *ticks as f64 / TICKS_PER_S);
        }
    }
    family
}

fn pressure(sample: &Sample) -> Family {
    let help = "Time in which some task or all tasks (full) waited for a resource";
    let mut family = counter("host_pressure", "seconds", help);
    for (resource, times) in [
        ("cpu", sample.pressure.cpu),
        ("io", sample.pressure.io),
        ("memory", sample.pressure.memory),
    ] {
        let Some(times) = times else { continue };
        for (kind, micros) in [("some", times.some), ("full", times.full)] {
            family.add(
                [("resource", resource), ("kind", kind)],
                micros as f64 / 1e6,
            );
        }
    }
    family
}

fn memory(sample: &Sample) -> Family {
    let help = "Memory and swap space of the host by kind";
    let mut family = gauge("host_memory", "bytes", help);
    let Some(memory) = sample.memory else {
        return family;
    };
    for (kind, bytes) in [
        ("total", memory.total_bytes),
        ("available", memory.available_bytes),
        ("dirty", memory.dirty_bytes),
        ("swap_total", memory.swap_total_bytes),
        ("swap_free", memory.swap_free_bytes),
    ] {
        family.add([("kind", kind)], bytes as f64);
    }
    family
}

fn udp(sample: &Sample) -> Family {
    let help = "UDP datagrams that the host lost: arrived and taken by no socket (in), those of them for which the \
                receive buffer was full (receive_buffer), and those for which the send buffer was full (send_buffer)";
    let mut family = counter("host_udp_lost", "", help);
    for (version, counters) in [("4", sample.udp), ("6", sample.udp6)] {
        let Some(counters) = counters else { continue };
        let UdpCounters {
            in_errors,
            receive_buffer_errors,
            send_buffer_errors,
        } = counters;
        for (kind, count) in [
            ("in", in_errors),
            ("receive_buffer", receive_buffer_errors),
            ("send_buffer", send_buffer_errors),
        ] {
            family.add([("ip", version), ("kind", kind)], count as f64);
        }
    }
    family
}

fn softnet(sample: &Sample) -> Family {
    let help = "Packets that the processors dropped on arrival";
    let mut family = counter("host_softnet_dropped", "", help);
    if !sample.softnet_drops.is_empty() {
        let sum = sample.softnet_drops.iter().copied();
        family.add([], sum.fold(0, u64::saturating_add) as f64);
    }
    family
}

fn disks(sample: &Sample) -> [Family; 2] {
    let help = "Bytes that each disk read and wrote";
    let mut transferred = counter("host_disk_transferred", "bytes", help);
    let help = "Time in which each disk had a request in flight";
    let mut busy = counter("host_disk_busy", "seconds", help);
    for (device, counters) in &sample.disks {
        let (read, written) = (counters.read_bytes as f64, counters.written_bytes as f64);
        transferred.add([("device", device), ("direction", "read")], read);
        transferred.add([("device", device), ("direction", "write")], written);
        busy.add([("device", device)], counters.busy_millis as f64 / 1e3);
    }
    [transferred, busy]
}

fn interfaces(sample: &Sample) -> [Family; 3] {
    let help = "Bytes that each network interface received and transmitted";
    let mut transferred = counter("host_interface_transferred", "bytes", help);
    let help = "Packets that each network interface received and transmitted";
    let mut packets = counter("host_interface_packets", "", help);
    let help = "Packets that each network interface lost, by errors and by drops of the kernel";
    let mut lost = counter("host_interface_lost", "", help);
    for (device, counters) in &sample.interfaces {
        for (direction, traffic) in [("in", counters.received), ("out", counters.transmitted)] {
            let TrafficCounters {
                bytes,
                packets: count,
                errors,
                drops,
            } = traffic;
            let labels = [("device", device.as_str()), ("direction", direction)];
            transferred.add(labels, bytes as f64);
            packets.add(labels, count as f64);
            let [device, direction] = labels;
            lost.add([device, direction, ("reason", "errors")], errors as f64);
            lost.add([device, direction, ("reason", "drops")], drops as f64);
        }
    }
    [transferred, packets, lost]
}

/// Returns the metrics of the paths.
fn paths(paths: &PathTable) -> Vec<Family> {
    let mut families = Vec::new();
    for (mut family, values) in COLUMNS {
        for path in paths.iter() {
            for (name, label, value) in values(path) {
                let host = ("host", path.last.host.as_str());
                if name.is_empty() {
                    family.add([host], value);
                } else {
                    family.add([host, (name, label)], value);
                }
            }
        }
        families.push(family);
    }
    families
}

/// Values of a path, each with the name and the value of a label; an empty name for none.
type Values = fn(&PathStatus) -> Vec<(&'static str, &'static str, f64)>;

const COLUMNS: [(Family, Values); 8] = [
    (
        gauge(
            "path_up",
            "",
            "1 if the last probe of the path succeeded, else 0",
        ),
        |path| vec![("", "", f64::from(u8::from(path.is_up())))],
    ),
    (
        counter("path_probes", "", "Probes of the path by their outcome"),
        |path| {
            let succeeded = path.probes.saturating_sub(path.failed);
            vec![
                ("outcome", "success", succeeded as f64),
                ("outcome", "failure", path.failed as f64),
            ]
        },
    ),
    (
        gauge("path_rtt", "seconds", "Round-trip times of the last probe"),
        |path| {
            let of = |measured: &PathMeasures| {
                vec![
                    ("kind", "min", measured.rtt_min_s),
                    ("kind", "mean", measured.rtt_mean_s),
                    ("kind", "max", measured.rtt_max_s),
                ]
            };
            path.measured.as_ref().map_or_else(Vec::new, of)
        },
    ),
    (
        gauge(
            "path_jitter",
            "seconds",
            "Mean difference of consecutive round-trip times of the last probe",
        ),
        |path| one(path.measured.as_ref().map(|measured| measured.jitter_s)),
    ),
    (
        counter(
            "path_datagrams",
            "",
            "Datagrams of probes to the daemon: sent, and lost on the path",
        ),
        |path| {
            vec![
                ("kind", "sent", path.sent as f64),
                ("kind", "lost", path.lost as f64),
            ]
        },
    ),
    (
        gauge(
            "path_mtu",
            "bytes",
            "Longest packet that passes; 0 if no datagram does",
        ),
        |path| one(path.mtu_bytes.map(f64::from)),
    ),
    (
        gauge(
            "path_rate",
            "bytes_per_second",
            "Rate at which the last train of datagrams arrived",
        ),
        |path| one(path.rate_bps.map(|rate| rate as f64 / 8.0)),
    ),
    (
        gauge(
            "path_copy_rate",
            "bytes_per_second",
            "Rate on the wire that a copy has found in the last hour",
        ),
        |path| one(path.last.copy_rate_bps.map(|rate| rate as f64 / 8.0)),
    ),
];

fn one(value: Option<f64>) -> Vec<(&'static str, &'static str, f64)> {
    value.map(|value| ("", "", value)).into_iter().collect()
}

/// Ticks of `/proc/stat`: the kernel reports this many on every platform (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

#[cfg(test)]
mod tests;
