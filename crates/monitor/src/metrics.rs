//! Metrics of this host and its paths, for Prometheus and OpenTelemetry.
//!
//! [`MonitorMetrics`] keeps the last sample and the state of all paths, and [`MonitorMetrics::families`] returns them
//! as named values in base units. Counters are those of the kernel since the host started, so that a scraper computes
//! rates over any time; those of probes count since the monitor started. [`MonitorMetrics::page`] is the text that
//! Prometheus reads, with the prefix `lighthaul_`. Labels are devices and names of daemons.

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
pub struct MonitorMetrics(Mutex<MonitorState>);

#[derive(Clone, Debug, Default)]
struct MonitorState {
    sample: Sample,
    paths: PathTable,
}

/// Metric with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Name without a prefix and without its unit.
    pub name: &'static str,
    /// Help text of the metric.
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
    fn lock(&self) -> MutexGuard<'_, MonitorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a sample of the host.
    pub fn set_sample(&self, sample: &Sample) {
        self.lock().sample = sample.clone();
    }

    /// Stores the result of a probe.
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

    /// Returns all metrics that can occur, without values.
    pub fn descriptions() -> Vec<Family> {
        all(&MonitorState::default())
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

fn all(state: &MonitorState) -> Vec<Family> {
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
    let help = "UDP datagrams that the host lost: arrived without reaching a socket (in), among them datagrams for a full \
                receive buffer (receive_buffer), and unsent datagrams because of a full send buffer (send_buffer)";
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
    let help = "Received packets that the kernel dropped because the backlog queue of a processor was full";
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

/// Values of a path, each with the name and the value of a label; the name is empty for a value without a label.
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

/// Ticks per second in `/proc/stat`, the same on every platform (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

#[cfg(test)]
mod tests {
    use lighthaul_io::host::clock::Clock;

    use super::*;
    use crate::sample::disk::DiskCounters;
    use crate::sample::host::Sampler;
    use crate::sample::interface::InterfaceCounters;
    use crate::sample::memory::Memory;
    use crate::sample::pressure::StallTimes;

    fn sample() -> Sample {
        let mut sample = Sample::default();
        let times = CpuTimes {
            user: 150,
            system: 25,
            iowait: 1,
            softirq: 2,
            steal: 3,
            idle: 1000,
        };
        sample.cores.insert(3, times);
        sample.pressure.io = Some(StallTimes {
            some: 2_500_000,
            full: 1_000_000,
        });
        sample.memory = Some(Memory {
            total_bytes: 1 << 33,
            available_bytes: 1 << 32,
            dirty_bytes: 7,
            swap_total_bytes: 8,
            swap_free_bytes: 9,
        });
        let disk = DiskCounters {
            read_bytes: 1000,
            written_bytes: 2000,
            busy_millis: 1500,
        };
        sample.disks.insert("vda".into(), disk);
        let traffic = |first| TrafficCounters {
            bytes: first,
            packets: first + 1,
            errors: first + 2,
            drops: first + 3,
        };
        let interface = InterfaceCounters {
            received: traffic(10),
            transmitted: traffic(20),
        };
        sample.interfaces.insert("eth0".into(), interface);
        let udp = |first| UdpCounters {
            in_errors: first,
            receive_buffer_errors: first + 1,
            send_buffer_errors: first + 2,
        };
        (sample.udp, sample.udp6) = (Some(udp(30)), Some(udp(40)));
        sample.softnet_drops = vec![5, 6];
        sample
    }

    fn path(host: &str, measured: Option<PathMeasures>) -> PathSample {
        PathSample {
            host: host.to_owned(),
            copy_rate_bps: measured.is_some().then_some(800),
            measured,
            ..PathSample::default()
        }
    }

    const MEASURED: PathMeasures = PathMeasures {
        rtts_s: Vec::new(),
        rtt_min_s: 0.01,
        rtt_mean_s: 0.02,
        rtt_max_s: 0.03,
        jitter_s: 0.001,
        sent: 100,
        lost: 4,
        mtu_bytes: Some(1500),
        rate_bps: Some(8000),
    };

    const LINES: [&str; 38] = [
        "host_cpu_seconds_total{cpu=\"3\",mode=\"user\"} 1.5",
        "host_cpu_seconds_total{cpu=\"3\",mode=\"system\"} 0.25",
        "host_cpu_seconds_total{cpu=\"3\",mode=\"iowait\"} 0.01",
        "host_cpu_seconds_total{cpu=\"3\",mode=\"softirq\"} 0.02",
        "host_cpu_seconds_total{cpu=\"3\",mode=\"steal\"} 0.03",
        "host_cpu_seconds_total{cpu=\"3\",mode=\"idle\"} 10.0",
        "host_pressure_seconds_total{resource=\"io\",kind=\"some\"} 2.5",
        "host_pressure_seconds_total{resource=\"io\",kind=\"full\"} 1.0",
        "host_memory_bytes{kind=\"total\"} 8589934592.0",
        "host_memory_bytes{kind=\"available\"} 4294967296.0",
        "host_memory_bytes{kind=\"dirty\"} 7.0",
        "host_memory_bytes{kind=\"swap_total\"} 8.0",
        "host_memory_bytes{kind=\"swap_free\"} 9.0",
        "host_udp_lost_total{ip=\"4\",kind=\"in\"} 30.0",
        "host_udp_lost_total{ip=\"4\",kind=\"receive_buffer\"} 31.0",
        "host_udp_lost_total{ip=\"6\",kind=\"send_buffer\"} 42.0",
        "host_softnet_dropped_total 11.0",
        "host_disk_transferred_bytes_total{device=\"vda\",direction=\"read\"} 1000.0",
        "host_disk_transferred_bytes_total{device=\"vda\",direction=\"write\"} 2000.0",
        "host_disk_busy_seconds_total{device=\"vda\"} 1.5",
        "host_interface_transferred_bytes_total{device=\"eth0\",direction=\"in\"} 10.0",
        "host_interface_transferred_bytes_total{device=\"eth0\",direction=\"out\"} 20.0",
        "host_interface_packets_total{device=\"eth0\",direction=\"in\"} 11.0",
        "host_interface_lost_total{device=\"eth0\",direction=\"in\",reason=\"errors\"} 12.0",
        "host_interface_lost_total{device=\"eth0\",direction=\"out\",reason=\"drops\"} 23.0",
        "path_up{host=\"far\"} 1.0",
        "path_up{host=\"bad\\\"\"} 0.0",
        "path_probes_total{host=\"far\",outcome=\"success\"} 1.0",
        "path_probes_total{host=\"bad\\\"\",outcome=\"failure\"} 1.0",
        "path_rtt_seconds{host=\"far\",kind=\"min\"} 0.01",
        "path_rtt_seconds{host=\"far\",kind=\"mean\"} 0.02",
        "path_rtt_seconds{host=\"far\",kind=\"max\"} 0.03",
        "path_jitter_seconds{host=\"far\"} 0.001",
        "path_datagrams_total{host=\"far\",kind=\"sent\"} 100.0",
        "path_datagrams_total{host=\"far\",kind=\"lost\"} 4.0",
        "path_mtu_bytes{host=\"far\"} 1500.0",
        "path_rate_bytes_per_second{host=\"far\"} 1000.0",
        "path_copy_rate_bytes_per_second{host=\"far\"} 100.0",
    ];

    #[test]
    fn page_has_every_counter_in_base_units() {
        let metrics = MonitorMetrics::default();
        metrics.set_sample(&sample());
        metrics.add_path(&path("far", Some(MEASURED)));
        metrics.add_path(&path("bad\"", None));
        let page = metrics.page().unwrap();
        for line in LINES {
            let line = format!("lighthaul_{line}");
            assert!(page.lines().any(|other| other == line), "{line}: {page}");
        }
        assert!(page.contains("lighthaul_build_info{version="), "{page}");
        assert!(page.ends_with("# EOF\n"), "{page}");
        assert!(!page.contains("path_rtt_seconds{host=\"bad"), "{page}");
    }

    #[test]
    fn every_metric_of_this_host_has_help() {
        let metrics = MonitorMetrics::default();
        assert_eq!(metrics.families(), []);
        metrics.set_sample(&Sampler::new(Clock::start()).sample());
        metrics.add_path(&path("far", Some(MEASURED)));
        let families = metrics.families();
        assert!(families.len() >= 14, "{families:?}");
        let described = MonitorMetrics::descriptions();
        for Family { name, points, .. } in &described {
            assert!(points.is_empty(), "{name}");
        }
        let is_described =
            |family: &Family| described.iter().any(|other| other.name == family.name);
        assert!(families.iter().all(is_described), "{described:?}");
        let page = metrics.page().unwrap();
        for family in families {
            assert!(page.contains(&format!("# HELP lighthaul_{}", family.name)));
            assert!(!family.help.is_empty() && !family.help.ends_with('.'));
        }
    }
}
