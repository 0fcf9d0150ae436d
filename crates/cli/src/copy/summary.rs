//! Output at the end of a copy: as an event, a sentence and statistics.
//!
//! The functions format a `Summary`, and the printer writes the result. `Proof` says how far a
//! successful copy is verified, which the event and the sentence must not exaggerate. Times are in
//! seconds, rates in bits per second, and sizes in bytes. `limit` names the bottleneck.

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use lighthaul::Plan;
use lighthaul_base::{Rate, Size};
use lighthaul_copy::bottleneck::{Bottleneck, HostLoad, bottleneck};
use lighthaul_copy::watch::{Start, Summary};
use lighthaul_monitor::rates::Rates;
use lighthaul_monitor::sample::interface::InterfaceRates;
use lighthaul_monitor::sample::pressure::StallShares;
use serde_json::{Value, json};

use crate::copy::plan::{self, entries};
use lighthaul_copy::pace::whole;

/// Proof of equality that a successful copy gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The target equals the source.
    All,
    /// Sent files are equal; all other files have the same size and time.
    Moved,
    /// No comparison.
    None,
    /// Dry run.
    DryRun,
}

/// Returns the event of a copy that has ended. `removed` counts paths that were removed at the target, `plan` what a
/// dry run would do, and `cpu` is in seconds.
pub(super) fn event(
    summary: &Summary,
    proof: Proof,
    (removed, plan): (u64, &Plan),
    (limit, cpu): (Option<Bottleneck>, f64),
) -> Value {
    let motion = &summary.motion;
    let mut event = json!({
        "type": "summary", "entries": summary.entries, "bytes": summary.bytes,
        "unchanged": summary.unchanged, "bytes_moved": motion.total,
        "elapsed_s": summary.elapsed.as_secs_f64(), "moving_s": summary.moving.as_secs_f64(),
        "goodput_bps": goodput(summary).as_bps(), "verified": is_verified(summary, proof),
        "rounds": motion.round, "packets": motion.sent, "packets_resent": motion.resent,
        "buffer_drops": motion.buffer_drops, "foreign": motion.foreign,
        "source_wait_s": seconds(motion.source_wait), "target_wait_s": seconds(motion.target_wait),
        "bottleneck": limit.map(Bottleneck::name),
        "cpu_s": cpu, "failures": summary.failures.len(), "removed": removed,
        "delta_files": summary.motion.delta.files, "delta_bytes_copied": summary.motion.delta.copied,
        "delta_bytes_sent": summary.motion.delta.sent,
    });
    if proof == Proof::DryRun {
        event["planned_bytes"] = json!(plan.bytes);
        event["planned_entries"] = json!(plan.entries);
        event["planned_changes"] = json!(plan.changes);
        event["planned_deletions"] = json!(plan.deletions);
    }
    event
}

/// Returns the summary as one line of text. A dry run ends with what would be done.
pub(super) fn sentence(summary: &Summary, proof: Proof, (removed, plan): (u64, &Plan)) -> String {
    let failed = entries(summary.failures.len() as u64);
    if summary.entries == 0 && !summary.failures.is_empty() {
        return format!("nothing copied; {failed} failed");
    }
    let total = summary.motion.total;
    let verified = match proof {
        Proof::DryRun if !summary.failures.is_empty() => {
            format!("{failed} failed, {}", plan::sentence(plan))
        }
        Proof::DryRun => plan::sentence(plan),
        Proof::None => "NOT verified (--verify=none)".to_owned(),
        _ if !summary.failures.is_empty() => format!("{failed} failed, the rest is verified"),
        Proof::Moved if total == 0 => String::new(),
        Proof::Moved if summary.unchanged > 0 => "sent data verified".to_owned(),
        Proof::Moved | Proof::All => "verified".to_owned(),
    };
    let goodput = goodput(summary);
    let speed = match total {
        _ if proof == Proof::DryRun => "a dry run".to_owned(),
        0 if summary.unchanged == summary.entries => "up to date".to_owned(),
        0 => "no file data to send".to_owned(),
        total if total < summary.bytes => format!("{} sent at {goodput}", Size(total)),
        _ => goodput.to_string(),
    };
    let removed = match removed {
        0 => String::new(),
        removed => format!("{removed} removed"),
    };
    let parts = [
        Size(summary.bytes).to_string() + " in " + &entries(summary.entries),
        format!(
            "{:.2} s ({:.2} s start-up)",
            summary.elapsed.as_secs_f64(),
            summary.elapsed.saturating_sub(summary.moving).as_secs_f64(),
        ),
        speed,
        delta(summary).unwrap_or_default(),
        removed,
        verified,
    ];
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns the line about the path and the bottleneck of a copy, unless the copy was short.
pub(super) fn limits(
    summary: &Summary,
    start: Option<&Start>,
    limit: Option<Bottleneck>,
) -> Option<String> {
    let (motion, limit) = (&summary.motion, limit?);
    let mut parts = Vec::new();
    if let Some(rate) = rate(start) {
        parts.push(format!("{rate} on the wire"));
    }
    if motion.resent > 0 {
        let share = motion.resent_percent();
        parts.push(format!("{share:.2} % retransmitted"));
    }
    parts.push(format!("limited by {limit}"));
    Some(parts.join(", "))
}

/// Returns the bottleneck of a copy on a host with this load; `asked` if the user gave a rate.
pub(super) fn limit(
    summary: &Summary,
    (start, asked): (Option<&Start>, bool),
    host: &HostLoad,
) -> Option<Bottleneck> {
    bottleneck(summary, (rate(start), asked), host)
}

/// Returns the load of this host, from its rates while the data moved. `cpu` is the time in seconds for which this
/// process has used processors.
pub(super) fn host_load(summary: &Summary, (rates, sends): (&Rates, bool), cpu: f64) -> HostLoad {
    let percent = |fraction: f64| whole(fraction * 100.0);
    let stalls = |shares: Option<StallShares>| shares.map(|shares| percent(shares.some));
    let busiest = rates.cores.iter().map(|core| core.shares.busy());
    let disks = rates.disks.iter().map(|disk| disk.busy);
    let outside = rates.interfaces.iter().filter(|nth| nth.name != "lo");
    let packets = |nth: &InterfaceRates| nth.rx_packets_per_s + nth.tx_packets_per_s;
    let drops = |nth: &InterfaceRates| nth.rx_drops_per_s + nth.tx_drops_per_s;
    let (packets, drops) = outside.fold((0.0, rates.softnet_drops_per_s), |sum, nth| {
        (sum.0 + packets(nth), sum.1 + drops(nth))
    });
    HostLoad {
        sends,
        own: load(summary, cpu),
        processors: percent(rates.cpu.busy()),
        busiest: percent(busiest.fold(0.0, f64::max)),
        processor_stalls: stalls(rates.pressure.cpu),
        disk_stalls: stalls(rates.pressure.io),
        disk: percent(disks.fold(0.0, f64::max)),
        dropped: percent(drops / (packets + drops).max(1.0)),
    }
}

/// Returns the rate on the wire, if one was set.
fn rate(start: Option<&Start>) -> Option<Rate> {
    Rate::from_bps(start?.rate_bps?).filter(|rate| *rate != Rate::UNLIMITED)
}

/// Returns the load of the processors in percent, from the seconds that they worked.
fn load(summary: &Summary, cpu: f64) -> u64 {
    let processors = available_parallelism().map_or(1, NonZero::get);
    let elapsed = summary.elapsed.as_secs_f64().max(0.001);
    whole(cpu * 100.0 / elapsed / processors as f64)
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// Returns the lines of `--stats`.
pub(super) fn stats(summary: &Summary, start: Option<&Start>, cpu: f64) -> Vec<String> {
    let motion = &summary.motion;
    let mut lines = Vec::new();
    if let Some(start) = start {
        let rate = start.rate_bps.and_then(Rate::from_bps);
        let rate = rate.map_or_else(|| "as TCP allows".to_owned(), |rate| rate.to_string());
        let (cipher, digest) = (&start.cipher, &start.digest);
        lines.push(format!(
            "  rate          {rate} on the wire, {cipher}, compared by {digest}"
        ));
        lines.push(format!("  packet        {} bytes", start.packet_len));
    }
    let gb = motion.total as f64 / 1e9;
    let a_gb = match motion.total {
        0 => String::new(),
        _ => format!(", {:.2} s/GB", cpu / gb),
    };
    lines.extend([
        format!("  rounds        {}", motion.round),
        format!(
            "  datagrams     {} ({} retransmitted)",
            motion.sent, motion.resent
        ),
        format!(
            "  buffer drops  {} (lost in the receiving host)",
            motion.buffer_drops
        ),
        format!("  foreign       {} (unknown or forged)", motion.foreign),
        format!("  CPU           {cpu:.2} s on this side{a_gb}"),
    ]);
    if let Some(delta) = delta(summary) {
        let files = summary.motion.delta.files;
        lines.push(format!("  changed files {files} with a {delta} sent"));
    }
    lines
}

/// Returns the words about files that were sent as deltas, if any.
fn delta(summary: &Summary) -> Option<String> {
    let delta = summary.motion.delta;
    let all = Size(delta.copied.saturating_add(delta.sent));
    (delta.files > 0).then(|| format!("delta: {} of {all}", Size(delta.sent)))
}

/// Returns true if digests proved all sent data intact.
fn is_verified(summary: &Summary, proof: Proof) -> bool {
    matches!(proof, Proof::All | Proof::Moved) && summary.failures.is_empty()
}

fn goodput(summary: &Summary) -> Rate {
    Rate::of(summary.motion.total, summary.moving)
}

#[cfg(test)]
mod tests {
    use lighthaul_monitor::rates::PressureShares;
    use lighthaul_monitor::sample::cpu::{CoreShares, CpuShares};
    use lighthaul_monitor::sample::disk::DiskRates;

    use super::*;

    #[test]
    fn host_load_is_computed_from_rates() {
        let shares = |user| CpuShares {
            user,
            idle: 1.0 - user,
            ..CpuShares::default()
        };
        let interface = |name: &str, packets, drops| InterfaceRates {
            name: name.to_owned(),
            rx_bytes_per_s: 0.0,
            tx_bytes_per_s: 0.0,
            rx_packets_per_s: packets,
            tx_packets_per_s: packets,
            rx_errors_per_s: 0.0,
            tx_errors_per_s: 0.0,
            rx_drops_per_s: drops,
            tx_drops_per_s: drops,
        };
        let disk = |busy| DiskRates {
            name: "vda".to_owned(),
            read_bytes_per_s: 0.0,
            write_bytes_per_s: 0.0,
            busy,
        };
        let stalls = |some| Some(StallShares { some, full: 0.0 });
        let core = |core, user| CoreShares {
            core,
            shares: shares(user),
        };
        let rates = Rates {
            cpu: shares(0.5),
            cores: vec![core(0, 0.1), core(1, 0.9)],
            pressure: PressureShares {
                cpu: stalls(0.3),
                io: stalls(0.04),
                memory: None,
            },
            disks: vec![disk(0.2), disk(0.7), disk(0.1)],
            // the loopback interface does not count
            interfaces: vec![interface("eth0", 96.0, 3.0), interface("lo", 0.0, 500.0)],
            softnet_drops_per_s: 2.0,
            ..Rates::default()
        };
        let summary = Summary {
            elapsed: Duration::from_secs(1000),
            ..Summary::default()
        };
        let expected = HostLoad {
            sends: true,
            own: 0,
            processors: 50,
            busiest: 90,
            processor_stalls: Some(30),
            disk_stalls: Some(4),
            disk: 70,
            dropped: 4,
        };
        assert_eq!(host_load(&summary, (&rates, true), 1.0), expected);
        let short = Summary {
            elapsed: Duration::from_millis(1),
            ..Summary::default()
        };
        let busy = host_load(&short, (&rates, false), 1000.0);
        assert!(busy.own > 90 && !busy.sends, "{busy:?}");
    }
}
