//! Pauses of RBUDP+ (section 4 of its paper): the receiver predicts when other tasks will run on its processor, and
//! asks the sender to pause for that time.
//!
//! [`Feedback`] is the receiver's half and [`PauseTracker`] the sender's half. Neither does I/O. They deviate from the
//! paper in favor of its goal, which is no loss:
//!
//! - The paper's sender transmits for the time slice less RTT/2, which ignores the propagation delay of the data.
//!   Here it is the slice less the RTT: the notice takes one way, and the last data the other.
//! - The paper pauses for the whole absence, which costs 3 to 50 % of the throughput on an idle host. Here the sender
//!   resumes earlier, since the socket buffers some data. Its peak fill is the feedback: a socket that always has
//!   data belongs to an overloaded host.
//! - A periodic absence is announced one RTT ahead, even if the period is shorter than that.
//! - Data sent before the receiver first runs would be lost. So the receiver first sends a notice that it runs. The
//!   sender waits for it if that costs less than a hundredth of the transfer. For a further object on the same socket
//!   it does not wait, since the capacity of the socket is known.

use core::time::Duration;

use lighthaul_base::{Absence, Instant, Load, Rate};

use super::pause::{FeedbackConfig, Pause, PauseMessage};
use super::receive_window::{Memory, ReceiveWindow};

/// Receiver's half: turns load samples of its host into pause requests.
#[derive(Clone, Debug)]
pub struct Feedback {
    config: FeedbackConfig,
    window: ReceiveWindow,
    rate: Rate,
    /// The sender knows of all absences before `announced_till`. The last of them begins at `last_start`.
    announced_till: Instant,
    last_start: Instant,
    /// Bytes that may arrive during an absence (the socket buffers them). Negative if the host needs pauses longer
    /// than its absences.
    allowance: i64,
    /// Maximum fill of the socket since the last pause, in bytes.
    peak: u64,
}

impl Feedback {
    /// Returns the state before the first load sample. `rate` is the agreed rate of the sender.
    pub const fn new(config: FeedbackConfig, rate: Rate) -> Self {
        Self {
            config,
            window: ReceiveWindow::new(config, rate),
            rate,
            announced_till: Instant::ZERO,
            last_start: Instant::ZERO,
            allowance: 0,
            peak: 0,
        }
    }

    /// Takes over the knowledge of an earlier transfer on the same socket.
    pub const fn remember(&mut self, memory: Memory) {
        self.window.remember(memory);
    }

    /// Returns the knowledge gathered about the socket.
    pub const fn memory(&self) -> Memory {
        self.window.memory()
    }

    /// Handles a load sample. `taken` is the total of octets on the wire read from the socket. Returns the message to
    /// send, if one is needed.
    pub fn handle_load(&mut self, now: Instant, load: Load, taken: u64) -> Option<PauseMessage> {
        if self.window.applies_to(&load) {
            return self
                .window
                .handle_load(now, load, taken)
                .map(PauseMessage::Window);
        }
        let end = self.window.withdraw().map(PauseMessage::Window);
        end.or_else(|| self.predict(now, load).map(PauseMessage::Pause))
    }

    /// Returns the message that is due, if any.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<PauseMessage> {
        self.window.handle_timeout(now).map(PauseMessage::Window)
    }

    /// Returns the time at which the next message is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.window.poll_timeout()
    }

    /// Returns a pause for a predicted absence, if the request is due.
    fn predict(&mut self, now: Instant, load: Load) -> Option<Pause> {
        self.peak = self.peak.max(load.socket_bytes);
        let absence = self.upcoming(now, load.absence?)?;
        self.learn(load.socket_bytes_max, absence);
        let len = self.shorten(absence.len);
        let from = absence.from.max(now);
        let till = absence.from + len;
        self.last_start = absence.from;
        self.announced_till = (absence.from + absence.len).max(till);
        let pause = Pause {
            after: from.since(now),
            len: till.since(from).min(self.config.pause_max),
        };
        (pause.len >= LEN_MIN).then_some(pause)
    }

    /// Returns the first absence that the sender does not know and can still react to, if its announcement is due.
    fn upcoming(&self, now: Instant, absence: Absence) -> Option<Absence> {
        let heard = now + self.config.rtt;
        let ends = |from: Instant| from + absence.len > heard && from >= self.announced_till;
        let mut from = absence.from;
        if !ends(from) && !absence.every.is_zero() {
            let behind = heard.max(self.announced_till).since(from).as_nanos();
            let every = absence.every.as_nanos();
            let nanos = behind.div_ceil(every).saturating_mul(every);
            from += Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
        // the sender stores only one future pause
        let begun = self.last_start <= heard;
        let within = from.since(now) <= self.config.rtt + self.config.pause_max;
        (ends(from) && begun && within).then_some(Absence { from, ..absence })
    }

    /// Adjusts the allowance to the peak fill of the socket since the last pause.
    fn learn(&mut self, socket_bytes_max: u64, absence: Absence) {
        let max = i64::try_from(socket_bytes_max).unwrap_or(i64::MAX / 8);
        let peak = i64::try_from(self.peak).unwrap_or(i64::MAX / 8);
        self.peak = 0;
        let allowance = if peak > max / 8 * 7 {
            // the socket may have overflowed, and the amount lost is unknown
            self.allowance.min(0) - max / 2
        } else {
            self.allowance + (max / 2 - peak) / 2
        };
        // a pause is at most four times as long as its absence
        let cycle = self.rate.bytes_in(absence.len).min(1 << 40).cast_signed();
        self.allowance = allowance.clamp(cycle.saturating_mul(-3), max);
    }

    /// Returns the length of the pause for an absence of `len`.
    fn shorten(&self, len: Duration) -> Duration {
        let time = self.rate.time_for(self.allowance.unsigned_abs());
        if self.allowance >= 0 {
            len.saturating_sub(time)
        } else {
            len + time
        }
    }
}

/// Sender's half: tracks the pauses that the receiver requested.
#[derive(Clone, Debug)]
pub struct PauseTracker {
    config: FeedbackConfig,
    /// Agreed rate, which the receiver uses to convert octets to time.
    rate: Rate,
    /// Time of the last datagram sent.
    sent_at: Instant,
    /// End of the present pause; zero outside a pause.
    till: Instant,
    /// Start and end of the next pause for a predicted absence.
    next: Option<(Instant, Instant)>,
    /// Remaining window, if the receiver advertises windows.
    window: Option<GrantedWindow>,
    /// Largest recent window.
    granted: Option<GrantedWindow>,
}

/// Window that a receiver with a shared processor has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedWindow {
    /// Octets on the wire.
    octets: u64,
    /// Maximum length of the pause once the window is used up.
    len: Duration,
}

impl PauseTracker {
    /// Returns the state without any request. `rate` is the agreed rate; the sender may be slower.
    pub const fn new(now: Instant, config: FeedbackConfig, rate: Rate) -> Self {
        Self {
            config,
            rate,
            sent_at: now,
            till: Instant::ZERO,
            next: None,
            window: None,
            granted: None,
        }
    }

    /// Returns a state that pauses until the receiver's first message, but at most [`FeedbackConfig::pause_max`].
    pub fn until_first_message(now: Instant, config: FeedbackConfig, rate: Rate) -> Self {
        Self {
            till: now + config.pause_max,
            ..Self::new(now, config, rate)
        }
    }

    /// Returns the largest recent window, as long as the receiver shares its processor.
    pub const fn granted(&self) -> Option<GrantedWindow> {
        self.granted
    }

    /// Starts with a window that an earlier transfer had from the same socket, which is empty now. The sender need not
    /// wait for the first message.
    pub const fn remember(&mut self, granted: GrantedWindow) {
        self.till = Instant::ZERO;
        self.window = Some(granted);
        self.granted = Some(granted);
    }

    /// Handles a message about pauses. A pause replaces a pause that has not begun. A window replaces any earlier
    /// request. Returns false if the message is out of range.
    pub fn handle_message(&mut self, now: Instant, message: PauseMessage) -> bool {
        let FeedbackConfig { rtt, pause_max } = self.config;
        let (PauseMessage::Pause(pause) | PauseMessage::Window(pause)) = message;
        if pause.after > rtt + pause_max {
            return false;
        }
        let len = pause.len.min(pause_max);
        match message {
            PauseMessage::Pause(_) if len.is_zero() => return false,
            PauseMessage::Pause(pause) => {
                // both ends in the sender's time; a pause that has ended by now has no effect
                let from = now + pause.after;
                self.next = Some((from - rtt, from + len - rtt));
            }
            PauseMessage::Window(pause) => {
                // data sent while the advertisement was in flight also occupies the socket
                let octets = self.rate.bytes_in(pause.after.saturating_sub(rtt));
                self.next = None;
                self.till = self.till.min(now);
                self.window = (!len.is_zero()).then_some(GrantedWindow { octets, len });
                let most = self.granted.map_or(0, |granted| granted.octets);
                self.granted = self.window.map(|granted| GrantedWindow {
                    octets: granted.octets.max(most - most / 8),
                    ..granted
                });
            }
        }
        true
    }

    /// True if no datagram may be sent now.
    pub fn is_on(&mut self, now: Instant) -> bool {
        if let Some((from, till)) = self.next
            && from <= now
        {
            self.next = None;
            if now < till {
                self.till = till.max(self.till);
            }
        }
        if let Some(GrantedWindow { octets: 0, len }) = self.window {
            self.window = None;
            self.till = now + len;
        }
        self.till().is_some_and(|till| now < till)
    }

    /// Subtracts a datagram of `octets` from the window.
    pub const fn spend(&mut self, octets: u32) {
        if let Some(window) = &mut self.window {
            window.octets = window.octets.saturating_sub(octets as u64);
        }
    }

    /// Records that a datagram may leave now. Returns true if it ends a pause.
    pub fn end(&mut self, now: Instant) -> bool {
        self.sent_at = now;
        let paused = self.till > Instant::ZERO;
        self.till = Instant::ZERO;
        paused
    }

    /// Returns the end of the present pause, at most [`FeedbackConfig::pause_max`] after the last datagram.
    pub fn till(&self) -> Option<Instant> {
        (self.till > Instant::ZERO).then(|| self.till.min(self.sent_at + self.config.pause_max))
    }
}

/// Minimum length of a pause; a shorter one is not worth a message.
const LEN_MIN: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const CONFIG: FeedbackConfig = FeedbackConfig {
        rtt: Duration::from_millis(10),
        pause_max: Duration::from_secs(1),
    };
    const RATE: Rate = Rate::from_mbps(800);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn away(from: u64, len: u64, every: u64) -> Load {
        Load {
            absence: Some(Absence {
                from: at(from),
                len: MS * len as u32,
                every: MS * every as u32,
            }),
            ..Load::default()
        }
    }

    fn pause(after: u64, len: u64) -> PauseMessage {
        PauseMessage::Pause(Pause {
            after: MS * after as u32,
            len: MS * len as u32,
        })
    }

    #[test]
    fn predicted_absence_is_announced_once() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        assert_eq!(feedback.handle_load(at(0), Load::default(), 0), None);
        let told = feedback.handle_load(at(0), away(100, 500, 0), 0);
        assert_eq!(told, Some(pause(100, 500)));
        assert_eq!(feedback.handle_load(at(50), away(100, 500, 0), 0), None);
        let told = feedback.handle_load(at(600), away(700, 500, 0), 0);
        assert_eq!(told, Some(pause(100, 500)));
    }

    #[test]
    fn periodic_absence_is_announced_in_time() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        // the first two begin too early for the sender to react, the third does not
        let told = feedback.handle_load(at(100), away(102, 3, 4), 0);
        assert_eq!(told, Some(pause(10, 3)));
        assert_eq!(
            feedback.handle_load(at(101), away(102, 3, 4), 0),
            Some(pause(13, 3))
        );
    }

    #[test]
    fn absence_that_the_socket_can_buffer_needs_no_pause() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let roomy = |from, socket_bytes| Load {
            socket_bytes,
            socket_bytes_max: 4_000_000,
            ..away(from, 10, 20)
        };
        // 10 ms bring 1 MB, which a quarter of the socket holds
        assert_eq!(feedback.handle_load(at(0), roomy(15, 0), 0), None);
        // a socket that is always full belongs to an overloaded host
        let mut last = None;
        for nth in 1..20 {
            let told = feedback.handle_load(at(nth * 20), roomy(nth * 20 + 15, 4_000_000), 0);
            last = told.or(last);
        }
        assert_eq!(last, Some(pause(35, 40)), "not more than four absences");
    }

    #[test]
    fn sender_pauses_while_receiver_is_descheduled() {
        let mut tracker = PauseTracker::new(at(0), CONFIG, RATE);
        assert!(tracker.handle_message(at(0), pause(30, 100)));
        // 10 ms earlier: half of the RTT for the notice, half for the data
        for now in 0..200 {
            let on = tracker.is_on(at(now));
            assert_eq!(on, (20..120).contains(&now), "{now} ms");
            if !on {
                assert_eq!(tracker.end(at(now)), now == 120, "{now} ms");
            }
        }
    }

    #[test]
    fn wait_for_first_message_ends_with_any_message_or_timeout() {
        let mut deaf = PauseTracker::until_first_message(at(0), CONFIG, RATE);
        assert!(deaf.is_on(at(0)) && deaf.is_on(at(999)));
        assert!(!deaf.is_on(at(1000)));
        let mut tracker = PauseTracker::until_first_message(at(0), CONFIG, RATE);
        assert!(tracker.handle_message(at(5), PauseMessage::Window(Pause::NONE)));
        assert!(!tracker.is_on(at(5)));
    }

    #[test]
    fn long_pause_is_bounded_and_invalid_request_ignored() {
        let mut tracker = PauseTracker::new(at(0), CONFIG, RATE);
        let year = Duration::from_hours(8760);
        for (after, len) in [
            (year, MS),
            (Duration::MAX, Duration::MAX),
            (MS, Duration::ZERO),
        ] {
            assert!(!tracker.handle_message(at(0), PauseMessage::Pause(Pause { after, len })));
        }
        let after = Duration::ZERO;
        for now in 0..3000 {
            let len = Duration::MAX;
            assert!(tracker.handle_message(at(now), PauseMessage::Pause(Pause { after, len })));
            let on = tracker.is_on(at(now));
            assert_eq!(on, now == 0 || now % 1000 != 0, "{now} ms");
            if !on {
                tracker.end(at(now));
            }
        }
    }

    proptest! {
        #[test]
        fn pauses_are_bounded_and_do_not_overlap(
            rtt in 0_u64..200, pause_max in 1_u64..2000,
            loads in prop::collection::vec((0_u64..50, 0_u64..400, any::<[u16; 2]>(), 0_u64..99), 1..80),
        ) {
            let config = FeedbackConfig { rtt: MS * rtt as u32, pause_max: MS * pause_max as u32 };
            let mut feedback = Feedback::new(config, RATE);
            let (mut now, mut told) = (at(0), at(0));
            for (wait, ahead, [len, fill], every) in loads {
                now += MS * wait as u32;
                let from = now.as_nanos() / 1_000_000 + ahead;
                let load = Load {
                    socket_bytes: u64::from(fill),
                    socket_bytes_max: u64::from(u16::MAX),
                    ..away(from, u64::from(len) % 1000, every)
                };
                if let Some(PauseMessage::Pause(Pause { after, len })) = feedback.handle_load(now, load, 0) {
                    prop_assert!(len <= config.pause_max && after <= config.rtt + config.pause_max);
                    prop_assert!(now + after >= told, "pauses must not overlap");
                    told = now + after + len;
                }
            }
        }

        #[test]
        fn no_pause_exceeds_its_bound(
            asked in prop::collection::vec((0_u64..300, any::<u64>(), any::<u64>(), any::<bool>()), 1..100),
        ) {
            let mut tracker = PauseTracker::new(at(0), CONFIG, RATE);
            let (mut now, mut sent_at) = (at(0), at(0));
            for (wait, after, len, is_window) in asked {
                let till = now + MS * wait as u32;
                while now < till {
                    now += MS;
                    if !tracker.is_on(now) {
                        tracker.end(now);
                        sent_at = now;
                    }
                    prop_assert!(now.since(sent_at) <= CONFIG.pause_max);
                }
                let micros = |bound| Duration::from_micros(bound % 3_000_000);
                let pause = Pause { after: micros(after), len: micros(len) };
                let message = if is_window { PauseMessage::Window(pause) } else { PauseMessage::Pause(pause) };
                tracker.handle_message(now, message);
            }
        }
    }
}
