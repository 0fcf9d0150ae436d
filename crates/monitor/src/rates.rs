//! Rates of this host between two samples.
//!
//! [`Rates::between`] compares two samples. A device, processor or task that is in one of them only
//! has no rate. Rates are per second; shares of time are fractions between 0 and 1. The fields have
//! the names that they have in JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sample::cpu::{CoreShares, CpuShares, CpuTimes};
use crate::sample::disk::DiskRates;
use crate::sample::host::{PressureCounters, Sample};
use crate::sample::interface::InterfaceRates;
use crate::sample::memory::Memory;
use crate::sample::pressure::{StallShares, StallTimes};
use crate::sample::schedule::run_delay;
use crate::sample::udp::{UdpCounters, UdpRates, softnet_drops_per_s};

/// Rates of a host in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// End of the interval, in seconds since 1970 (UTC).
    pub time_s: f64,
    /// Length of the interval in seconds.
    pub interval_s: f64,
    /// Mean of all processors.
    pub cpu: CpuShares,
    /// Shares of time of each processor.
    pub cores: Vec<CoreShares>,
    /// Fraction of the time with runnable threads in which this process waited for a processor.
    pub run_delay: Option<f64>,
    /// Stalls for processors, disks and memory.
    pub pressure: PressureShares,
    /// Memory at the end of the interval.
    pub memory: Option<Memory>,
    /// Rates of each disk.
    pub disks: Vec<DiskRates>,
    /// Rates of each network interface.
    pub interfaces: Vec<InterfaceRates>,
    /// Lost UDP datagrams over IPv4.
    pub udp: Option<UdpRates>,
    /// Lost UDP datagrams over IPv6. Samples of earlier versions lack them.
    #[serde(default)]
    pub udp6: Option<UdpRates>,
    /// Packets per second that the processors dropped on arrival.
    pub softnet_drops_per_s: f64,
}

/// Stalls for each resource; `None` if the kernel does not measure them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PressureShares {
    /// Stalls for a processor.
    pub cpu: Option<StallShares>,
    /// Stalls for input and output.
    pub io: Option<StallShares>,
    /// Stalls for memory.
    pub memory: Option<StallShares>,
}

impl Rates {
    /// Returns the rates from `before` to `after`.
    pub fn between(before: &Sample, after: &Sample) -> Self {
        let interval = after.at.since(before.at);
        let mut all = CpuTimes::default();
        let mut cores = Vec::new();
        for (core, times) in &after.cores {
            let Some(old) = before.cores.get(core) else {
                continue;
            };
            let ticks = times.since(old);
            all = all.plus(&ticks);
            let shares = ticks.shares();
            cores.push(CoreShares {
                core: *core,
                shares,
            });
        }
        let disks = after.disks.iter().filter_map(|(name, counters)| {
            let old = before.disks.get(name)?;
            Some(counters.rates(name, old, interval))
        });
        let interfaces = after.interfaces.iter().filter_map(|(name, counters)| {
            let old = before.interfaces.get(name)?;
            Some(counters.rates(name, old, interval))
        });
        Self {
            time_s: (after.unix_nanos / 1_000_000) as f64 / 1e3,
            interval_s: (interval.as_secs_f64() * 1e6).round() / 1e6,
            cpu: all.shares(),
            cores,
            run_delay: run_delay(&before.tasks, &after.tasks),
            pressure: pressure(&before.pressure, &after.pressure, interval),
            memory: after.memory,
            disks: disks.collect(),
            interfaces: interfaces.collect(),
            udp: udp(before.udp, after.udp, interval),
            udp6: udp(before.udp6, after.udp6, interval),
            softnet_drops_per_s: softnet_drops_per_s(
                &before.softnet_drops,
                &after.softnet_drops,
                interval,
            ),
        }
    }

    /// Returns the bytes received and transmitted per second, without the loopback interface.
    pub fn traffic(&self) -> (f64, f64) {
        let outside = self.interfaces.iter().filter(|rates| rates.name != "lo");
        outside.fold((0.0, 0.0), |(rx, tx), rates| {
            (rx + rates.rx_bytes_per_s, tx + rates.tx_bytes_per_s)
        })
    }

    /// Returns the packets lost per second: by all interfaces, on arrival, and by UDP sockets.
    pub fn losses_per_s(&self) -> f64 {
        let interfaces: f64 = { self.interfaces.iter() }
            .map(InterfaceRates::losses_per_s)
            .sum();
        let udp = self.udp_losses();
        interfaces + self.softnet_drops_per_s + udp.in_errors_per_s + udp.send_buffer_errors_per_s
    }

    /// Returns the UDP datagrams lost per second over IPv4 and IPv6.
    pub fn udp_losses(&self) -> UdpRates {
        let (udp, udp6) = (self.udp, self.udp6);
        udp.unwrap_or_default().plus(udp6.unwrap_or_default())
    }

    /// Returns the bytes read and written per second by all disks.
    pub fn transfers(&self) -> (f64, f64) {
        self.disks.iter().fold((0.0, 0.0), |(read, write), rates| {
            (
                read + rates.read_bytes_per_s,
                write + rates.write_bytes_per_s,
            )
        })
    }
}

fn udp(
    before: Option<UdpCounters>,
    after: Option<UdpCounters>,
    interval: Duration,
) -> Option<UdpRates> {
    Some(after?.rates(&before?, interval))
}

fn pressure(
    before: &PressureCounters,
    after: &PressureCounters,
    interval: Duration,
) -> PressureShares {
    let shares = |before: Option<StallTimes>, after: Option<StallTimes>| {
        Some(after?.shares(&before?, interval))
    };
    PressureShares {
        cpu: shares(before.cpu, after.cpu),
        io: shares(before.io, after.io),
        memory: shares(before.memory, after.memory),
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_base::Instant;

    use super::*;
    use crate::sample::disk::DiskCounters;
    use crate::sample::interface::InterfaceCounters;

    fn times(user: u64, idle: u64) -> CpuTimes {
        CpuTimes {
            user,
            idle,
            ..CpuTimes::default()
        }
    }

    #[test]
    fn devices_in_a_single_sample_have_no_rates() {
        let mut before = Sample::default();
        let mut after = Sample {
            at: Instant::ZERO + Duration::from_secs(1),
            unix_nanos: 1_500_000_000,
            ..Sample::default()
        };
        before.cores.insert(0, times(0, 0));
        before.cores.insert(9, times(0, 0));
        after.cores.insert(0, times(30, 70));
        after.cores.insert(1, times(30, 70));
        let disk = DiskCounters {
            read_bytes: 5,
            ..DiskCounters::default()
        };
        before.disks.insert("old".into(), disk);
        after.disks.insert("new".into(), disk);
        for sample in [&mut before, &mut after] {
            let lo = InterfaceCounters::default();
            sample.interfaces.insert("lo".into(), lo);
            sample.interfaces.insert("eth0".into(), lo);
        }
        let received = |sample: &mut Sample, name: &str, bytes| {
            let counters = sample.interfaces.get_mut(name).unwrap();
            counters.received.bytes = bytes;
        };
        received(&mut after, "lo", 7000);
        received(&mut after, "eth0", 500);
        before.udp = Some(UdpCounters::default());
        after.udp = Some(UdpCounters {
            in_errors: 3,
            receive_buffer_errors: 3,
            send_buffer_errors: 0,
        });
        before.udp6 = Some(UdpCounters::default());
        after.udp6 = Some(UdpCounters {
            in_errors: 2,
            receive_buffer_errors: 1,
            send_buffer_errors: 4,
        });
        let rates = Rates::between(&before, &after);
        assert_eq!(rates.cores.len(), 1);
        assert!((rates.cpu.user - 0.3).abs() < 1e-9);
        assert!(rates.disks.is_empty());
        assert!((rates.traffic().0 - 500.0).abs() < 1e-9, "{rates:?}");
        assert!((rates.losses_per_s() - 9.0).abs() < 1e-9, "{rates:?}");
        assert!((rates.time_s - 1.5).abs() < 1e-9 && (rates.interval_s - 1.0).abs() < 1e-9);
        assert_eq!(rates.pressure, PressureShares::default());
        // one version of IP alone has rates of its own
        assert!((rates.udp_losses().in_errors_per_s - 5.0).abs() < 1e-9);
        before.udp6 = None;
        assert_eq!(Rates::between(&before, &after).udp6, None);
    }

    #[test]
    fn equal_samples_have_no_rates_and_no_fault() {
        let mut sample = Sample::default();
        sample.cores.insert(0, times(5, 5));
        let rates = Rates::between(&sample, &sample);
        assert_eq!(rates.cores[0].shares, CpuShares::default());
        assert!(rates.losses_per_s().abs() < 1e-9);
    }
}
