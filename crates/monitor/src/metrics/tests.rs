//! Tests of the page of metrics.

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
    let is_described = |family: &Family| described.iter().any(|other| other.name == family.name);
    assert!(families.iter().all(is_described), "{described:?}");
    let page = metrics.page().unwrap();
    for family in families {
        assert!(page.contains(&format!("# HELP lighthaul_{}", family.name)));
        assert!(!family.help.is_empty() && !family.help.ends_with('.'));
    }
}
