//! Comparison of a sender's packets with its receiver's reports, a round trip later.

use alloc::collections::VecDeque;
use core::time::Duration;

use lighthaul_base::Instant;

/// Packets in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Length of the window.
    pub time: Duration,
    /// Packets that were sent in the window.
    pub sent: u64,
    /// Packets that arrived in the same window, a round trip later.
    pub arrived: u64,
}

/// Counters of a sender, with the counters that its receiver reported at the same times.
#[derive(Clone, Debug)]
pub struct FlowMeter {
    rtt: Duration,
    spacing: Duration,
    /// Samples in the order of their times.
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    sent: u64,
    arrived: u64,
}

impl FlowMeter {
    /// Starts on a path with the round-trip time `rtt`. It keeps samples of at least twice `time` and a round trip.
    pub fn new(rtt: Duration, time: Duration) -> Self {
        let spacing = (rtt + time * 2) / (SAMPLES_MAX as u32 / 2);
        Self {
            rtt,
            spacing: spacing.max(SPACING_MIN),
            samples: VecDeque::new(),
        }
    }

    /// Takes the number of packets sent by `now`, and the number that arrived by the latest report.
    pub fn update(&mut self, now: Instant, sent: u64, arrived: u64) {
        let last = self.samples.back();
        if last.is_some_and(|last| now.since(last.at) < self.spacing) {
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            at: now,
            sent,
            arrived,
        });
    }

    /// Returns the flow of the latest window of at least `time`. Returns none if it was not sent after `since`, or if
    /// its begin is not known.
    pub fn latest(&self, time: Duration, since: Instant) -> Option<Flow> {
        let end = self.samples.back()?;
        self.window(end, time, since).map(|(_, flow)| flow)
    }

    /// Returns the flows of the latest window and of the window before, like [`Self::latest`].
    pub fn latest_two(&self, time: Duration, since: Instant) -> Option<[Flow; 2]> {
        let end = self.samples.back()?;
        let (begin, last) = self.window(end, time, since)?;
        let (_, before) = self.window(begin, time, since)?;
        Some([before, last])
    }

    /// Returns the window that ends at a sample, and its first sample.
    fn window(&self, end: &Sample, time: Duration, since: Instant) -> Option<(&Sample, Flow)> {
        let mut earlier = self.samples.iter().rev();
        let begin = earlier.find(|sample| sample.at + time <= end.at)?;
        if begin.at < since + self.rtt {
            return None;
        }
        let sent_from = begin.at - self.rtt;
        let sent = [end.at - self.rtt, sent_from].map(|at| self.sent_by(at));
        let flow = Flow {
            time: end.at.since(begin.at),
            sent: sent[0]?.saturating_sub(sent[1]?),
            arrived: end.arrived.saturating_sub(begin.arrived),
        };
        Some((begin, flow))
    }

    /// Returns the packets sent by `at`, between two samples in proportion to the time.
    fn sent_by(&self, at: Instant) -> Option<u64> {
        let next = self.samples.partition_point(|sample| sample.at <= at);
        let before = self.samples.get(next.checked_sub(1)?)?;
        let Some(after) = self.samples.get(next) else {
            return Some(before.sent);
        };
        let whole = after.at.since(before.at).as_nanos().max(1);
        let part = at.since(before.at).as_nanos();
        let sent = u128::from(after.sent.saturating_sub(before.sent)) * part / whole;
        Some(before.sent + sent as u64)
    }
}

/// Minimum time between two samples.
const SPACING_MIN: Duration = Duration::from_millis(5);
/// Maximum number of samples.
const SAMPLES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const WINDOW: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Sends a packet each millisecond from the time zero, and ten from `faster`. Of them, `of_ten` arrive.
    fn meter(till: u64, faster: u64, of_ten: u64) -> FlowMeter {
        let sent = |millis: u64| millis + millis.saturating_sub(faster) * 9;
        let mut meter = FlowMeter::new(RTT, WINDOW);
        for millis in (0..=till).step_by(7) {
            let arrived = sent(millis.saturating_sub(100)) * of_ten / 10;
            meter.update(at(millis), sent(millis), arrived);
        }
        meter
    }

    #[test]
    fn arrivals_are_compared_with_packets_sent_a_round_trip_before() {
        for of_ten in [3, 10] {
            let meter = meter(700, 350, of_ten);
            let [before, last] = meter.latest_two(WINDOW, at(400)).unwrap();
            assert_eq!(meter.latest(WINDOW, at(400)), Some(last));
            for flow in [before, last] {
                assert_eq!(flow.time, Duration::from_millis(56));
                assert!(flow.sent.abs_diff(560) <= 1, "{flow:?}");
                assert!(flow.arrived.abs_diff(56 * of_ten) <= 1, "{flow:?}");
            }
        }
    }

    #[test]
    fn window_begins_after_the_given_time() {
        let meter = meter(700, 1000, 10);
        assert!(meter.latest(WINDOW, at(544)).is_some());
        assert_eq!(meter.latest(WINDOW, at(545)), None);
        assert_eq!(meter.latest(Duration::from_millis(650), at(0)), None);
    }

    #[test]
    fn samples_are_bounded_and_suffice_for_the_window() {
        for rtt in [1, 20, 300, 5000] {
            let rtt = Duration::from_millis(rtt);
            let mut meter = FlowMeter::new(rtt, WINDOW);
            for millis in 0..20_000 {
                meter.update(at(millis), millis, millis);
            }
            assert!(meter.samples.len() <= SAMPLES_MAX);
            assert!(meter.latest_two(WINDOW, Instant::ZERO).is_some(), "{rtt:?}");
        }
    }
}
