//! RBUDP+ (section 4 of its paper): the receiver foresees when others will have its processor, and
//! asks the sender for a pause then.
//!
//! [`Feedback`] is the receiver's half, [`Silence`] the sender's; plain numbers in, a pause out. Where
//! they do otherwise than the paper, they do what it is after, no loss:
//!
//! - The paper's sender goes on for the time slice less RTT/2, as its data took no time to cross. Here
//!   the notice takes one way and what was sent last takes the other, so it is the slice less the RTT.
//! - The paper pauses for the whole absence, which costs it 3 to 50 % on an idle host. A socket holds
//!   something, so that much is sent before the host is back; how much is learned from how full the
//!   socket has been, since one that is never empty belongs to a host that is asked for too much.
//! - An absence that comes again is told of one RTT before, however often it comes within that time.
//! - What is sent before the receiver has run for the first time finds nobody either. So the receiver's first word is
//!   that it runs, and where that costs less than a hundredth of the transfer, the sender waits for it; not for an object behind
//!   another, as what the socket holds is known then.

use core::time::Duration;

use lighthaul_base::{Absence, Instant, Load, Rate};

use super::room::{Memory, Room};

/// What both sides agree on about pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackConfig {
    /// How long a notice and the data that it is about take, there and back.
    pub rtt: Duration,
    /// The sender is never silent for longer because of pauses, nor asked for one further ahead.
    pub pause_max: Duration,
}

impl FeedbackConfig {
    /// Whether pauses can be made of this.
    pub fn is_sane(&self) -> bool {
        self.rtt <= RTT_MAX && !self.pause_max.is_zero() && self.pause_max <= PAUSE_MAX
    }
}

/// A wish not to get anything, as it is when it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// How long the receiver still takes what comes.
    pub after: Duration,
    /// How long it then takes nothing.
    pub len: Duration,
}

impl Pause {
    /// None: go on.
    pub const NONE: Self = Self {
        after: Duration::ZERO,
        len: Duration::ZERO,
    };
}

/// What a receiver says to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// An absence that is foreseen.
    Pause(Pause),
    /// How long there is room, counted from now, and how long to wait then for the next such wish, which
    /// takes the place of this one whether or not the silence has begun; of no length, that there is none.
    Room(Pause),
}

/// What a receiver makes of its host's absences.
#[derive(Clone, Debug)]
pub struct Feedback {
    config: FeedbackConfig,
    room: Room,
    rate: Rate,
    /// The sender knows of all absences before this moment, the last of which begins at `last`.
    told: Instant,
    last: Instant,
    /// Bytes that may come in an absence, of which the socket holds three quarters; less than none if the
    /// host needs longer pauses than its absences.
    allowance: i64,
    /// The fullest that the socket has been since the last pause.
    peak: u64,
}

impl Feedback {
    /// A receiver that has not heard of its host yet, of a sender that keeps `rate`.
    pub const fn new(config: FeedbackConfig, rate: Rate) -> Self {
        Self {
            config,
            room: Room::new(config, rate),
            rate,
            told: Instant::ZERO,
            last: Instant::ZERO,
            allowance: 0,
            peak: 0,
        }
    }

    /// Is on a socket of which an earlier one has learned this.
    pub const fn remember(&mut self, memory: Memory) {
        self.room.remember(memory);
    }

    /// What it has learned of its socket.
    pub const fn memory(&self) -> Memory {
        self.room.memory()
    }

    /// Hears how the host is doing, and how many octets on the wire it has taken from its socket in all;
    /// answers what to ask for.
    pub fn handle_load(&mut self, now: Instant, load: Load, taken: u64) -> Option<Wish> {
        if self.room.serves(&load) {
            return self.room.handle_load(now, load, taken).map(Wish::Room);
        }
        let end = self.room.end().map(Wish::Room);
        end.or_else(|| self.foresee(now, load).map(Wish::Pause))
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Wish> {
        self.room.handle_timeout(now).map(Wish::Room)
    }

    /// When something is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.room.poll_timeout()
    }

    /// A pause for an absence that is foreseen, if it is time to ask for one.
    fn foresee(&mut self, now: Instant, load: Load) -> Option<Pause> {
        self.peak = self.peak.max(load.socket_bytes);
        let absence = self.upcoming(now, load.absence?)?;
        self.learn(load.socket_bytes_max, absence);
        let len = self.shorten(absence.len);
        let from = absence.from.max(now);
        let till = absence.from + len;
        self.last = absence.from;
        self.told = (absence.from + absence.len).max(till);
        let pause = Pause {
            after: from.since(now),
            len: till.since(from).min(self.config.pause_max),
        };
        (pause.len >= LEN_MIN).then_some(pause)
    }

    /// The first absence that the sender does not know of and can still heed, if it is time to tell.
    fn upcoming(&self, now: Instant, absence: Absence) -> Option<Absence> {
        let heard = now + self.config.rtt;
        let ends = |from: Instant| from + absence.len > heard && from >= self.told;
        let mut from = absence.from;
        if !ends(from) && !absence.every.is_zero() {
            let behind = heard.max(self.told).since(from).as_nanos();
            let every = absence.every.as_nanos();
            let nanos = behind.div_ceil(every).saturating_mul(every);
            from += Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
        // a sender keeps one wish for a time to come
        let begun = self.last <= heard;
        let within = from.since(now) <= self.config.rtt + self.config.pause_max;
        (ends(from) && begun && within).then_some(Absence { from, ..absence })
    }

    /// Learns from how full the socket was at most since the last pause.
    fn learn(&mut self, socket_bytes_max: u64, absence: Absence) {
        let max = i64::try_from(socket_bytes_max).unwrap_or(i64::MAX / 8);
        let peak = i64::try_from(self.peak).unwrap_or(i64::MAX / 8);
        self.peak = 0;
        let allowance = if peak > max / 8 * 7 {
            // nobody knows how much did not fit
            self.allowance.min(0) - max / 2
        } else {
            self.allowance + (max / 2 - peak) / 2
        };
        // the longest pause is four absences
        let cycle = self.rate.bytes_in(absence.len).min(1 << 40).cast_signed();
        self.allowance = allowance.clamp(cycle.saturating_mul(-3), max);
    }

    /// How long to be silent in an absence of `len`.
    fn shorten(&self, len: Duration) -> Duration {
        let time = self.rate.time_for(self.allowance.unsigned_abs());
        if self.allowance >= 0 {
            len.saturating_sub(time)
        } else {
            len + time
        }
    }
}

/// What a sender makes of the pauses that it was asked for.
#[derive(Clone, Debug)]
pub struct Silence {
    config: FeedbackConfig,
    /// The agreed one, by which a receiver counts.
    rate: Rate,
    /// When a datagram left last.
    loud: Instant,
    /// The pause that it is in lasts till then; zero outside.
    till: Instant,
    /// The pause after that, if it was foreseen.
    next: Option<(Instant, Instant)>,
    /// Octets on the wire for which the receiver has room, and how long the pause behind them is.
    room: Option<Granted>,
    /// The most of it that was granted lately.
    granted: Option<Granted>,
}

/// Room that a receiver beside others has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Octets on the wire.
    octets: u64,
    /// How long to wait then for a word.
    len: Duration,
}

impl Silence {
    /// A sender that was not asked for any, and keeps `rate` or less.
    pub const fn new(now: Instant, config: FeedbackConfig, rate: Rate) -> Self {
        Self {
            config,
            rate,
            loud: now,
            till: Instant::ZERO,
            next: None,
            room: None,
            granted: None,
        }
    }

    /// A sender that is silent until the receiver's first word, but not for ever.
    pub fn until_first_word(now: Instant, config: FeedbackConfig, rate: Rate) -> Self {
        Self {
            till: now + config.pause_max,
            ..Self::new(now, config, rate)
        }
    }

    /// The most room that was granted lately, as long as the receiver has to share its processor.
    pub const fn granted(&self) -> Option<Granted> {
        self.granted
    }

    /// Sends to a socket that holds nothing and has been granted so much: there is no need to wait for its receiver.
    pub const fn remember(&mut self, granted: Granted) {
        self.till = Instant::ZERO;
        self.room = Some(granted);
        self.granted = Some(granted);
    }

    /// Hears a wish, and forgets an earlier one for a time that has not begun, or any if it is about
    /// room; answers whether the wish made sense.
    pub fn hear(&mut self, now: Instant, wish: Wish) -> bool {
        let FeedbackConfig { rtt, pause_max } = self.config;
        let (Wish::Pause(pause) | Wish::Room(pause)) = wish;
        if pause.after > rtt + pause_max {
            return false;
        }
        let len = pause.len.min(pause_max);
        match wish {
            Wish::Pause(_) if len.is_zero() => return false,
            Wish::Pause(pause) => {
                // both ends in the sender's time; what is over when it is heard is no pause
                let from = now + pause.after;
                self.next = Some((from - rtt, from + len - rtt));
            }
            Wish::Room(pause) => {
                // what left while the word was on its way needs room, too
                let octets = self.rate.bytes_in(pause.after.saturating_sub(rtt));
                self.next = None;
                self.till = self.till.min(now);
                self.room = (!len.is_zero()).then_some(Granted { octets, len });
                let most = self.granted.map_or(0, |granted| granted.octets);
                self.granted = self.room.map(|granted| Granted {
                    octets: granted.octets.max(most - most / 8),
                    ..granted
                });
            }
        }
        true
    }

    /// Whether nothing may be sent now.
    pub fn is_on(&mut self, now: Instant) -> bool {
        if let Some((from, till)) = self.next
            && from <= now
        {
            self.next = None;
            if now < till {
                self.till = till.max(self.till);
            }
        }
        if let Some(Granted { octets: 0, len }) = self.room {
            self.room = None;
            self.till = now + len;
        }
        self.till().is_some_and(|till| now < till)
    }

    /// Notes that a datagram of so many octets leaves.
    pub const fn spend(&mut self, octets: u32) {
        if let Some(room) = &mut self.room {
            room.octets = room.octets.saturating_sub(octets as u64);
        }
    }

    /// Notes that a datagram may leave; answers whether it is the first after a pause.
    pub fn end(&mut self, now: Instant) -> bool {
        self.loud = now;
        let paused = self.till > Instant::ZERO;
        self.till = Instant::ZERO;
        paused
    }

    /// When the pause is over that it is in: whatever was asked for, not for ever.
    pub fn till(&self) -> Option<Instant> {
        (self.till > Instant::ZERO).then(|| self.till.min(self.loud + self.config.pause_max))
    }
}

/// Shorter pauses are not worth a message.
const LEN_MIN: Duration = Duration::from_micros(200);
/// The longest pause that may be agreed on.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The longest way there and back.
const RTT_MAX: Duration = Duration::from_mins(1);

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

    fn pause(after: u64, len: u64) -> Wish {
        Wish::Pause(Pause {
            after: MS * after as u32,
            len: MS * len as u32,
        })
    }

    #[test]
    fn an_absence_is_told_once_and_as_it_is() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        assert_eq!(feedback.handle_load(at(0), Load::default(), 0), None);
        let told = feedback.handle_load(at(0), away(100, 500, 0), 0);
        assert_eq!(told, Some(pause(100, 500)));
        assert_eq!(feedback.handle_load(at(50), away(100, 500, 0), 0), None);
        let told = feedback.handle_load(at(600), away(700, 500, 0), 0);
        assert_eq!(told, Some(pause(100, 500)));
    }

    #[test]
    fn what_comes_again_is_told_in_time() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        // the first two begin before the sender could heed, the third does not
        let told = feedback.handle_load(at(100), away(102, 3, 4), 0);
        assert_eq!(told, Some(pause(10, 3)));
        assert_eq!(
            feedback.handle_load(at(101), away(102, 3, 4), 0),
            Some(pause(13, 3))
        );
    }

    #[test]
    fn what_the_socket_holds_needs_no_pause() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let roomy = |from, socket_bytes| Load {
            socket_bytes,
            socket_bytes_max: 4_000_000,
            ..away(from, 10, 20)
        };
        // ten milliseconds bring a million, and a quarter of the socket holds that
        assert_eq!(feedback.handle_load(at(0), roomy(15, 0), 0), None);
        // a socket that is always full belongs to a host that is asked for too much
        let mut last = None;
        for nth in 1..20 {
            let told = feedback.handle_load(at(nth * 20), roomy(nth * 20 + 15, 4_000_000), 0);
            last = told.or(last);
        }
        assert_eq!(last, Some(pause(35, 40)), "not more than four absences");
    }

    #[test]
    fn a_sender_is_silent_when_the_receiver_would_not_hear() {
        let mut silence = Silence::new(at(0), CONFIG, RATE);
        assert!(silence.hear(at(0), pause(30, 100)));
        // 10 ms earlier, as the data take half of it and the notice took the other
        for now in 0..200 {
            let on = silence.is_on(at(now));
            assert_eq!(on, (20..120).contains(&now), "{now} ms");
            if !on {
                assert_eq!(silence.end(at(now)), now == 120, "{now} ms");
            }
        }
    }

    #[test]
    fn who_waits_for_the_first_word_hears_any_and_does_not_wait_for_ever() {
        let mut deaf = Silence::until_first_word(at(0), CONFIG, RATE);
        assert!(deaf.is_on(at(0)) && deaf.is_on(at(999)));
        assert!(!deaf.is_on(at(1000)));
        let mut silence = Silence::until_first_word(at(0), CONFIG, RATE);
        assert!(silence.hear(at(5), Wish::Room(Pause::NONE)));
        assert!(!silence.is_on(at(5)));
    }

    #[test]
    fn a_pause_of_a_year_is_bounded_and_nonsense_ignored() {
        let mut silence = Silence::new(at(0), CONFIG, RATE);
        let year = Duration::from_hours(8760);
        for (after, len) in [
            (year, MS),
            (Duration::MAX, Duration::MAX),
            (MS, Duration::ZERO),
        ] {
            assert!(!silence.hear(at(0), Wish::Pause(Pause { after, len })));
        }
        let after = Duration::ZERO;
        for now in 0..3000 {
            let len = Duration::MAX;
            assert!(silence.hear(at(now), Wish::Pause(Pause { after, len })));
            let on = silence.is_on(at(now));
            assert_eq!(on, now == 0 || now % 1000 != 0, "{now} ms");
            if !on {
                silence.end(at(now));
            }
        }
    }

    proptest! {
        #[test]
        fn pauses_are_in_bounds_and_apart(
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
                if let Some(Wish::Pause(Pause { after, len })) = feedback.handle_load(now, load, 0) {
                    prop_assert!(len <= config.pause_max && after <= config.rtt + config.pause_max);
                    prop_assert!(now + after >= told, "two pauses at a time");
                    told = now + after + len;
                }
            }
        }

        #[test]
        fn no_silence_outlasts_its_bound(
            asked in prop::collection::vec((0_u64..300, any::<u64>(), any::<u64>(), any::<bool>()), 1..100),
        ) {
            let mut silence = Silence::new(at(0), CONFIG, RATE);
            let (mut now, mut loud) = (at(0), at(0));
            for (wait, after, len, is_room) in asked {
                let till = now + MS * wait as u32;
                while now < till {
                    now += MS;
                    if !silence.is_on(now) {
                        silence.end(now);
                        loud = now;
                    }
                    prop_assert!(now.since(loud) <= CONFIG.pause_max);
                }
                let micros = |bound| Duration::from_micros(bound % 3_000_000);
                let pause = Pause { after: micros(after), len: micros(len) };
                let wish = if is_room { Wish::Room(pause) } else { Wish::Pause(pause) };
                silence.hear(now, wish);
            }
        }
    }
}
