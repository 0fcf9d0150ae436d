//! Output at the end of a copy: as an event, a sentence and statistics.
//!
//! The functions format a `Summary`, and the printer writes the result. `Proof` says how far a
//! successful copy is verified, which the event and the sentence must not exaggerate. Times are in
//! seconds, rates in bits per second, and sizes in bytes. `limit` names the bottleneck.

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use lighthaul_base::{Rate, Size};
use lighthaul_copy::bottleneck::{Bottleneck, bottleneck};
use lighthaul_copy::watch::{Start, Summary};
use serde_json::{Value, json};

use crate::copy::pace::whole;
use crate::copy::plan::{PlanTotals, entries};

/// Proof that a successful copy gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The target equals the source.
    All,
    /// Sent files are equal; the others have the same size and time.
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
    (removed, plan): (u64, &PlanTotals),
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
pub(super) fn sentence(
    summary: &Summary,
    proof: Proof,
    (removed, plan): (u64, &PlanTotals),
) -> String {
    let failed = entries(summary.failures.len() as u64);
    if summary.entries == 0 && !summary.failures.is_empty() {
        return format!("nothing copied; {failed} failed");
    }
    let total = summary.motion.total;
    let verified = match proof {
        Proof::DryRun if !summary.failures.is_empty() => {
            format!("{failed} failed, {}", plan.sentence())
        }
        Proof::DryRun => plan.sentence(),
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

/// Returns the line about the path and what limited a copy, unless it was short.
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

/// Returns what limited a copy whose user `asked` for a rate. `cpu` is in seconds.
pub(super) fn limit(
    summary: &Summary,
    (start, asked): (Option<&Start>, bool),
    cpu: f64,
) -> Option<Bottleneck> {
    bottleneck(summary, (rate(start), asked), load(summary, cpu))
}

/// Returns the rate on the wire, if one was set.
fn rate(start: Option<&Start>) -> Option<Rate> {
    Rate::from_bps(start?.rate_bps?).filter(|rate| *rate != Rate::UNLIMITED)
}

/// Returns the load of the processors in percent, from the time that they worked in seconds.
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

/// Returns the words about changed files of which only the changes were sent, if there were any.
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
