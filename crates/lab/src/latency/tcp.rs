//! Best case of messages over TCP, for comparison.
//!
//! Each message is a segment that is sent at once, since the model has no congestion window. A lost
//! segment is retransmitted when the third later segment is acknowledged (RFC 6675). If it is lost
//! again, a doubling timeout applies (RFC 6298).
//!
//! Messages are read in order, so a lost one delays all later ones. A real TCP also halves its
//! window, and carries almost nothing at high loss.

use std::time::Duration;

use lighthaul_base::Rng;

use super::plan::LatencyPlan;

/// Simulates the messages of a plan. Returns the latency of each.
pub fn latencies(plan: &LatencyPlan, loss_ppb: u64, seed: u64) -> Vec<Duration> {
    let mut rng = Rng::new(seed);
    let mut is_lost = || rng.next_u64() % 1_000_000_000 < loss_ppb;
    let way = plan.rtt / 2;
    let count = usize::try_from(plan.messages).unwrap_or(0);
    let first: Vec<bool> = (0..count).map(|_| is_lost()).collect();
    let mut ready = Duration::ZERO;
    let mut latencies = Vec::with_capacity(count);
    for (nth, lost) in first.iter().enumerate() {
        let sent = plan.every * nth as u32;
        let mut came = sent + way;
        if *lost {
            let timeout = sent + TIMEOUT_MIN.max(plan.rtt * 3 / 2);
            let behind = (nth + 1..count)
                .filter(|later| !first[*later])
                .nth(DUPLICATES - 1);
            let told = behind.map_or(timeout, |later| plan.every * later as u32 + plan.rtt);
            let mut again = told.min(timeout);
            let mut wait = TIMEOUT_MIN.max(plan.rtt * 3 / 2);
            while is_lost() {
                again += wait;
                wait *= 2;
            }
            came = again + way;
        }
        ready = ready.max(came);
        latencies.push(ready.saturating_sub(sent));
    }
    latencies
}

/// Smallest retransmission timeout of Linux.
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// Number of later segments whose acknowledgment marks a segment as lost.
const DUPLICATES: usize = 3;
