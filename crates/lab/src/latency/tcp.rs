//! Messages over TCP, as kindly as can be: a sketch, to compare with.
//!
//! Each message is a segment that leaves at once, since the window never gets small and nothing of what the sender
//! sends is held back. A lost one is sent again when the sender hears of the third behind it that came (RFC 6675), or,
//! lost again, when a timer ends that doubles (RFC 6298). Messages are read in order: who waits for one waits for all
//! behind it. A real TCP halves its window, too, and at high loss carries next to nothing.

use std::time::Duration;

use lighthaul_base::Rng;

use super::plan::LatencyPlan;

/// The latency of each message.
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

/// Linux's least retransmission timeout.
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// How many segments behind a lost one say that it is.
const DUPLICATES: usize = 3;
