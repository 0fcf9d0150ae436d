//! Receive-window advertisements of an RBUDP+ receiver that shares its processor (second source of pauses).
//!
//! The receiver may be descheduled at any moment, for an unknown time. So it advertises the time until its socket is
//! full if nothing drains it. The sender transmits for that long, then pauses until the next advertisement, but at
//! most for the length given. A new advertisement replaces the previous one.
//!
//! ```text
//! receiver   advertise(window)      advertise(window)   |descheduled|   advertise(window)
//! sender     sends ....................................... pauses ........ sends
//! ```
//!
//! - A running receiver advertises again before the sender pauses. A receiver that was descheduled advertises on its
//!   return; its socket is full then, and it has data to process while more is in flight.
//! - Neither the start nor the length of an absence has to be predicted. The socket must hold more than two
//!   round trips of data.
//! - An advertisement is a time at the agreed rate, which the sender converts to octets. A slower sender may send
//!   longer.
//! - Each advertisement costs the receiver processor time, above all a wakeup of the thread that sends it. So a new
//!   one is sent only if it extends the window by an eighth of the socket. A receiver that regularly empties its
//!   socket before it is descheduled advertises an empty socket on its return. The sender starts earlier, and no
//!   second advertisement is needed.

use core::mem;
use core::time::Duration;

use lighthaul_base::{Instant, Load, Rate};

use super::pause::{FeedbackConfig, Pause};

/// Estimate of the free space in the receiver's socket, and the state of its advertisements.
#[derive(Clone, Debug)]
pub(super) struct ReceiveWindow {
    config: FeedbackConfig,
    rate: Rate,
    load: Load,
    /// Time of the latest load sample.
    sampled: Instant,
    /// Number of octets on the wire that were read from the socket until that time.
    taken: u64,
    /// True if the receiver has emptied its socket since it was last descheduled.
    has_emptied: bool,
    memory: Memory,
    /// Socket fill after the latest absence, until the data of the absence is read.
    absence: Option<AbsenceSample>,
    advertised: Option<Advertisement>,
}

/// Knowledge about a receiver's socket, which carries over to the next object on the same socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Octets of socket memory per 1024 octets on the wire, measured after absences.
    cost: u64,
    /// Number of consecutive turns on the processor in which the receiver emptied its socket.
    emptied: u32,
}

impl Memory {
    /// Initial value, a guess.
    const NONE: Self = Self {
        cost: COST_FIRST,
        emptied: 0,
    };
}

/// Socket fill at the end of an absence.
#[derive(Clone, Copy, Debug)]
struct AbsenceSample {
    /// Octets on the wire that had been read before. The socket was empty then.
    taken: u64,
    ended: Instant,
    fill: u64,
}

/// Latest advertisement, in the receiver's time.
#[derive(Clone, Copy, Debug)]
struct Advertisement {
    /// Time at which data in flight ends and the sender pauses.
    closes: Instant,
    /// Time at which the next advertisement is considered.
    due: Instant,
    /// Time at which the next advertisement is sent in any case.
    expires: Instant,
}

impl ReceiveWindow {
    /// Returns the state before the first load sample. `rate` is the agreed rate of the sender.
    pub(super) const fn new(config: FeedbackConfig, rate: Rate) -> Self {
        Self {
            config,
            rate,
            load: Load {
                backlog_bytes: 0,
                backlog_bytes_max: 0,
                socket_bytes: 0,
                socket_bytes_max: 0,
                is_shared: false,
                absence: None,
            },
            sampled: Instant::ZERO,
            taken: 0,
            // the data of the previous object has been read
            has_emptied: true,
            memory: Memory::NONE,
            absence: None,
            advertised: None,
        }
    }

    /// Takes over the knowledge of an earlier transfer on the same socket.
    pub(super) const fn remember(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// Returns the knowledge for the next transfer to the same socket.
    pub(super) const fn memory(&self) -> Memory {
        self.memory
    }

    /// True if the receiver shares its processor and its socket holds more than two round trips of data.
    pub(super) fn applies_to(&self, load: &Load) -> bool {
        load.is_shared && self.time_for(load.socket_bytes_max) > self.config.rtt * 2
    }

    /// Handles a load sample. `taken` is the total of octets on the wire read from the socket. Returns the
    /// advertisement to send, if one is needed.
    pub(super) fn handle_load(&mut self, now: Instant, load: Load, taken: u64) -> Option<Pause> {
        let is_back = now.since(self.sampled) > AWAY_AFTER;
        if is_back {
            let has_emptied = mem::take(&mut self.has_emptied);
            let absence = AbsenceSample {
                taken: self.taken,
                ended: now,
                fill: load.socket_bytes,
            };
            // if data was read in between, the kernel may still account for some of it, so the fill is not exact
            self.absence = (has_emptied && taken == self.taken).then_some(absence);
            // an advertisement for an emptied socket that was not emptied reveals nothing about the cost of an octet
            let is_valid =
                self.advertised.is_some() && (has_emptied || self.memory.emptied < TURNS_SURE);
            if is_valid && self.is_full(load.socket_bytes) {
                // the socket may have overflowed, and the amount lost is unknown
                self.adjust_cost(COST_MAX);
            }
            self.memory.emptied = if has_emptied {
                self.memory.emptied.saturating_add(1)
            } else {
                0
            };
        }
        self.load = load;
        self.sampled = now;
        self.taken = taken;
        if load.socket_bytes <= load.socket_bytes_max / EMPTY_DIVISOR {
            self.has_emptied = true;
            self.learn_cost(now, taken);
        }
        let will_empty = is_back && self.memory.emptied >= TURNS_SURE;
        self.advertise(now, if will_empty { 0 } else { load.socket_bytes })
    }

    /// Returns an advertisement if one is due and the latest load sample is recent.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Pause> {
        let last = self.advertised.as_mut().filter(|last| last.due <= now)?;
        last.due = now + ADVERTISE_INTERVAL;
        if now.since(self.sampled) > AWAY_AFTER {
            return None;
        }
        self.advertise(now, self.load.socket_bytes)
    }

    /// Returns the time of the next advertisement, which is before the sender pauses.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.advertised.map(|last| last.due)
    }

    /// Withdraws the latest advertisement, if any, since no task competes any more.
    pub(super) fn withdraw(&mut self) -> Option<Pause> {
        self.advertised.take().map(|_| Pause::NONE)
    }

    /// Returns an advertisement for a socket that still holds `left` octets. Returns `None` if the latest one is
    /// recent and the new one would extend its window by less than an eighth of the socket.
    fn advertise(&mut self, now: Instant, left: u64) -> Option<Pause> {
        let max = self.load.socket_bytes_max;
        let free = (max - max / RESERVE_DIVISOR).saturating_sub(left);
        let after = self.time_for(free).min(self.config.pause_max);
        let from = now + after;
        let step = self.time_for(max / STEP_DIVISOR);
        let is_worthwhile =
            |last: Advertisement| now >= last.expires || from.since(last.closes.max(now)) >= step;
        if !self.advertised.is_none_or(is_worthwhile) {
            return None;
        }
        let len = self.config.pause_max;
        self.advertised = Some(Advertisement {
            closes: from,
            due: (from - self.config.rtt).max(now + ADVERTISE_INTERVAL),
            expires: from + len / 2,
        });
        Some(Pause { after, len })
    }

    /// Updates the cost of an octet once all data of an absence has been read.
    fn learn_cost(&mut self, now: Instant, taken: u64) {
        let Some(absence) = self.absence.take() else {
            return;
        };
        // exclude data that arrived while the socket was drained
        let later = self.rate.bytes_in(now.since(absence.ended));
        let held = (taken - absence.taken).saturating_sub(later);
        let is_reliable = absence.fill > self.load.socket_bytes_max / 4 && held > absence.fill / 4;
        if is_reliable && !self.is_full(absence.fill) {
            self.adjust_cost(absence.fill.saturating_mul(COST_ONE) / held);
        }
    }

    /// Adjusts the estimated cost, by at most an eighth up and a quarter of the difference down. An advertisement
    /// that is too small does less harm than one that is too large.
    fn adjust_cost(&mut self, cost: u64) {
        let was = self.memory.cost;
        let less = (was * 3 + cost) / 4;
        let cost = cost.max(less).min(was + was / 8);
        self.memory.cost = cost.clamp(COST_MIN, COST_MAX);
    }

    const fn is_full(&self, socket_bytes: u64) -> bool {
        let max = self.load.socket_bytes_max;
        socket_bytes > max - max / RESERVE_DIVISOR
    }

    /// Returns the time in which the sender fills `socket_bytes` of socket memory.
    fn time_for(&self, socket_bytes: u64) -> Duration {
        self.rate
            .time_for(socket_bytes.saturating_mul(COST_ONE) / self.memory.cost)
    }
}

/// The window leaves this fraction of the socket (1/128) free as a reserve.
const RESERVE_DIVISOR: u64 = 128;
/// The socket counts as empty below this fraction (1/16).
const EMPTY_DIVISOR: u64 = 16;
/// An advertisement must extend the window by this fraction of the socket (1/8).
const STEP_DIVISOR: u64 = 8;
/// Consecutive turns after which the receiver is expected to empty its socket again.
const TURNS_SURE: u32 = 8;
/// The receiver counts as descheduled after this time without a load sample.
const AWAY_AFTER: Duration = Duration::from_millis(2);
/// Minimum interval between two attempts to advertise.
const ADVERTISE_INTERVAL: Duration = Duration::from_millis(1);
const COST_ONE: u64 = 1024;
/// Initial cost: an eighth more in the socket than on the wire, as with coalesced datagrams.
const COST_FIRST: u64 = COST_ONE + COST_ONE / 8;
/// Minimum of the estimated cost. A slow sender makes the cost seem low.
const COST_MIN: u64 = COST_ONE / 2;
/// Maximum of the estimated cost. Small datagrams have a large overhead.
const COST_MAX: u64 = 8 * COST_ONE;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbudp::feedback::{Feedback, PauseTracker};
    use crate::rbudp::pause::PauseMessage;

    const MS: Duration = Duration::from_millis(1);
    const CONFIG: FeedbackConfig = FeedbackConfig {
        rtt: Duration::from_micros(100),
        pause_max: Duration::from_secs(1),
    };
    /// Rate of one megabyte per millisecond.
    const RATE: Rate = Rate::from_mbps(8000);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + MS * millis as u32
    }

    fn load(socket_bytes: u64, is_shared: bool) -> Load {
        Load {
            socket_bytes,
            socket_bytes_max: 16_000_000,
            is_shared,
            ..Load::default()
        }
    }

    fn window(message: Option<PauseMessage>) -> Option<Pause> {
        message.and_then(|message| match message {
            PauseMessage::Window(window) => Some(window),
            PauseMessage::Pause(_) => None,
        })
    }

    #[test]
    fn sender_transmits_for_one_full_socket_after_last_advertisement() {
        // counted by octets sent, so that a slower sender transmits longer
        for octets in [1_000_000, 500_000] {
            let mut feedback = Feedback::new(CONFIG, RATE);
            let mut tracker = PauseTracker::new(at(0), CONFIG, RATE);
            for now in 0..100 {
                let message = feedback.handle_load(at(now), load(0, true), 0);
                assert!(message.is_none_or(|message| tracker.handle_message(at(now), message)));
                assert!(!tracker.is_on(at(now)), "{now} ms");
                tracker.spend(octets);
            }
            // 16 MB are free, and each octet on the wire is assumed to take an eighth more
            let full = 14_000_000 / u64::from(octets);
            for now in 100..100 + full - 2 {
                assert!(!tracker.is_on(at(now)), "{now} ms");
                tracker.spend(octets);
            }
            for now in 100 + full - 2..100 + full {
                tracker.is_on(at(now));
                tracker.spend(octets);
            }
            assert!(tracker.is_on(at(100 + full)));
            let full = feedback.handle_load(at(150), load(8_000_000, true), 0);
            assert!(full.is_some_and(|full| tracker.handle_message(at(150), full)));
            assert!(!tracker.is_on(at(150)), "the receiver is back");
        }
    }

    #[test]
    fn sender_without_advertisement_resumes_after_pause() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut tracker = PauseTracker::new(at(0), CONFIG, RATE);
        let sent = feedback
            .handle_load(at(0), load(16_000_000, true), 0)
            .unwrap();
        assert!(tracker.handle_message(at(0), sent));
        assert!(tracker.is_on(at(1)) && tracker.is_on(at(999)));
        assert!(!tracker.is_on(at(1001)));
    }

    #[test]
    fn receiver_without_competition_withdraws_its_advertisement() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        assert_eq!(feedback.handle_load(at(0), load(9_000_000, false), 0), None);
        assert!(feedback.handle_load(at(1), load(0, true), 0).is_some());
        let end = window(feedback.handle_load(at(2), load(0, false), 0)).unwrap();
        assert_eq!(end.len, Duration::ZERO);
        assert_eq!(feedback.handle_load(at(3), load(1, false), 0), None);
        assert_eq!(feedback.poll_timeout(), None);
        let mut tracker = PauseTracker::new(at(0), CONFIG, RATE);
        let after = Duration::ZERO;
        tracker.handle_message(
            at(0),
            PauseMessage::Pause(Pause {
                after,
                len: MS * 90,
            }),
        );
        assert!(tracker.is_on(at(1)));
        assert!(tracker.handle_message(at(2), PauseMessage::Window(end)));
        assert!(!tracker.is_on(at(2)) && !tracker.is_on(at(3)));
    }

    #[test]
    fn next_advertisement_precedes_pause_and_needs_recent_sample() {
        for fill in [0, 15_000_000] {
            let mut feedback = Feedback::new(CONFIG, RATE);
            let sent = window(feedback.handle_load(at(0), load(fill, true), 0)).unwrap();
            let due = feedback.poll_timeout().unwrap();
            assert!(
                due >= at(0) + ADVERTISE_INTERVAL
                    && due <= at(0) + sent.after.max(ADVERTISE_INTERVAL)
            );
            // the receiver was descheduled, and the fill of its socket is unknown
            assert_eq!(feedback.handle_timeout(due + MS * 50), None);
            assert!(feedback.poll_timeout().unwrap() > due + MS * 50);
            let sent = feedback.handle_load(due + MS * 51, load(fill / 2, true), 0);
            assert!(window(sent).is_some());
        }
    }

    /// Returns the advertised time after `absences` absences. After each, the socket holds `held` octets on the wire
    /// in `fill` octets of its memory, and `later` octets arrive while it is drained.
    fn learned(absences: u64, [held, later]: [u64; 2], fill: u64) -> Duration {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut last = window(feedback.handle_load(at(0), load(0, true), 0)).unwrap();
        let mut taken = 0;
        for nth in 1..=absences {
            let back = at(nth * 60);
            feedback.handle_load(back, load(fill, true), taken);
            taken += held + later;
            let sent = feedback.handle_load(back + MS, load(0, true), taken);
            last = window(sent).unwrap_or(last);
        }
        last.after
    }

    #[test]
    fn overflow_raises_estimated_cost() {
        let first = learned(0, [0, 0], 0);
        assert!(learned(20, [14_000_000, 0], 16_000_000) < first / 4);
    }

    #[test]
    fn low_fill_lowers_estimated_cost_within_bounds() {
        let first = learned(0, [0, 0], 0);
        let mut last = Duration::ZERO;
        // any amount of the data may have arrived while the socket was drained
        for later in [0, 500_000, 1_000_000] {
            let after = learned(7, [8_000_000, later], 8_000_000);
            let most = RATE.time_for(15_875_000);
            assert!(after > last && after <= most, "{later}: {after:?}");
            last = after;
        }
        assert!(last > first + first / 20, "{last:?} {first:?}");
    }

    #[test]
    fn new_advertisement_adds_an_eighth_of_the_socket() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut said = |micros: u64, fill| {
            let now = at(0) + Duration::from_micros(micros);
            feedback.handle_load(now, load(fill, true), 0).is_some()
        };
        assert!(said(0, 16_000_000));
        assert!(!said(250, 15_000_000) && said(500, 13_000_000));
        assert!(!said(1000, 12_000_000) && said(1500, 0));
        assert!(
            !said(2000, 0) && !said(3000, 60_000),
            "that was advertised already"
        );
        assert!(said(3400, 60_000));
    }

    #[test]
    fn receiver_that_always_empties_its_socket_advertises_the_socket_on_return() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut taken = 0;
        let mut turn = |nth: u64, left| {
            let now = at(nth * 60);
            let back = feedback.handle_load(now, load(15_500_000, true), taken);
            taken += 15_500_000 - left;
            let end = feedback.handle_load(now + MS, load(left, true), taken);
            (window(back).map(|word| word.after), end.is_some())
        };
        for nth in 0..8 {
            let (back, says_more) = turn(nth, 0);
            assert!(back.is_none_or(|after| after < MS) && says_more, "{nth}");
        }
        let (back, says_more) = turn(8, 0);
        assert!(
            back.is_some_and(|after| after > MS * 12) && !says_more,
            "{back:?}"
        );
        turn(9, 8_000_000);
        for nth in 10..18 {
            let (back, _) = turn(nth, 0);
            assert!(back.is_none_or(|after| after < MS), "{nth}: {back:?}");
        }
        assert!(turn(18, 0).0.is_some_and(|after| after > MS * 12));
    }

    #[test]
    fn socket_knowledge_carries_over_to_next_object() {
        let mut first = Feedback::new(CONFIG, RATE);
        let mut taken = 0;
        for nth in 0..9 {
            first.handle_load(at(nth * 60), load(8_000_000, true), taken);
            taken += 9_000_000;
            first.handle_load(at(nth * 60 + 1), load(0, true), taken);
        }
        let after = |feedback: &mut Feedback| {
            let sent = feedback.handle_load(at(600), load(9_000_000, true), 0);
            window(sent).unwrap().after
        };
        let mut next = Feedback::new(CONFIG, RATE);
        next.remember(first.memory());
        let (known, guessed) = (after(&mut next), after(&mut Feedback::new(CONFIG, RATE)));
        assert!(known > MS * 14 && guessed < MS * 7, "{known:?} {guessed:?}");
    }

    #[test]
    fn fill_after_partial_read_is_not_used_as_measurement() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let first = window(feedback.handle_load(at(0), load(0, true), 0)).unwrap();
        let mut last = first;
        for nth in 1..50 {
            // 6 MB arrived, 4 MB were read, and the kernel still accounts for 5 MB
            let now = at(nth * 60);
            let taken = nth * 4_000_000;
            feedback.handle_load(now + MS * 6, load(5_000_000, true), taken);
            let sent = feedback.handle_load(now + MS * 7, load(0, true), taken + 2_000_000);
            last = window(sent).unwrap_or(last);
            feedback.handle_load(now + MS * 8, load(0, true), taken + 2_000_000);
        }
        assert_eq!(last.after, first.after);
    }

    #[test]
    fn idle_sender_does_not_change_estimated_cost() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let first = window(feedback.handle_load(at(0), load(0, true), 0)).unwrap();
        for nth in 1..50 {
            // nothing arrived while the receiver was descheduled
            feedback.handle_load(at(nth * 20), load(0, true), 0);
        }
        let last = window(feedback.handle_load(at(2000), load(0, true), 0)).unwrap();
        assert_eq!(last.after, first.after);
    }

    #[test]
    fn path_longer_than_socket_uses_predicted_absences() {
        let rtt = MS * 100;
        let mut feedback = Feedback::new(FeedbackConfig { rtt, ..CONFIG }, RATE);
        assert_eq!(feedback.handle_load(at(0), load(0, true), 0), None);
    }
}
