//! The end of a copy: as an event, a sentence and statistics.

use lighthaul_base::{Rate, Size};
use lighthaul_transfer::watch::{Start, Summary};
use serde_json::{Value, json};

/// Proof that a successful copy gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The target equals the source.
    All,
    /// Moved files are equal; the rest has the same size and time.
    Moved,
    /// No comparison.
    None,
    /// Dry run.
    DryRun,
}

/// Returns the event of a copy that is over. `removed` counts paths that were removed at the target, `cpu` is in seconds.
pub(super) fn event(summary: &Summary, proof: Proof, removed: u64, cpu: f64) -> Value {
    let motion = &summary.motion;
    json!({
        "type": "summary", "entries": summary.entries, "bytes": summary.bytes,
        "unchanged": summary.unchanged, "bytes_moved": motion.total,
        "elapsed_s": summary.elapsed.as_secs_f64(), "moving_s": summary.moving.as_secs_f64(),
        "goodput_bps": goodput(summary).as_bps(), "verified": is_verified(summary, proof),
        "rounds": motion.round, "packets": motion.sent, "packets_resent": motion.resent,
        "buffer_drops": motion.buffer_drops, "foreign": motion.foreign,
        "cpu_s": cpu, "failures": summary.failures.len(), "removed": removed,
    })
}

/// Returns one sentence for people.
pub(super) fn sentence(summary: &Summary, proof: Proof, removed: u64) -> String {
    let verified = match proof {
        Proof::DryRun => "nothing was done",
        Proof::None => "NOT verified (--verify=none)",
        _ if !summary.failures.is_empty() => "NOT all verified",
        Proof::Moved if summary.unchanged > 0 => "what was moved is verified",
        Proof::Moved | Proof::All => "verified",
    };
    let goodput = goodput(summary);
    let moved = Size(summary.motion.total);
    let speed = match summary.motion.total {
        _ if proof == Proof::DryRun => "a dry run".to_owned(),
        0 => "nothing to move".to_owned(),
        total if total < summary.bytes => format!("{moved} moved at {goodput}"),
        _ => goodput.to_string(),
    };
    let removed = match removed {
        0 => String::new(),
        removed => format!("{removed} removed, "),
    };
    format!(
        "{} in {}, {:.2} s ({:.2} s start-up), {speed}, {removed}{verified}",
        Size(summary.bytes),
        entries(summary.entries),
        summary.elapsed.as_secs_f64(),
        summary.elapsed.saturating_sub(summary.moving).as_secs_f64(),
    )
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
    lines
}

/// Returns true if all that was moved is proved to have arrived.
fn is_verified(summary: &Summary, proof: Proof) -> bool {
    matches!(proof, Proof::All | Proof::Moved) && summary.failures.is_empty()
}

fn goodput(summary: &Summary) -> Rate {
    Rate::of(summary.motion.total, summary.moving)
}

/// Returns a number of entries in words.
fn entries(count: u64) -> String {
    let noun = if count == 1 { "entry" } else { "entries" };
    format!("{count} {noun}")
}
