//! What a receiver tells its sender that may lose its processor at any moment, and for how long nobody
//! knows: for how long its socket has room. It is the second source of RBUDP+'s pauses, beside
//! absences that are foreseen.
//!
//! Each word takes the place of the one before: go on till the socket is full as if nobody emptied it,
//! then be silent till the next word, but not for ever. A receiver that is there gives the next word
//! before the silence begins; one that was away gives it when it is back, to a full socket, and has
//! something to do while more is under way. Neither when an absence begins nor how long it is
//! has to be foreseen, so long as the socket holds more than comes in a round trip.
//!
//! A word costs the receiver time that it has to share with others, so there are few of them: one when the socket has
//! been emptied, since that is when a receiver loses its processor, and else one in a millisecond.

use core::time::Duration;

use lighthaul_base::{Instant, Load, Rate};

use super::feedback::{FeedbackConfig, Pause};

/// What a receiver knows of the room in its socket.
#[derive(Clone, Debug)]
pub(super) struct Room {
    config: FeedbackConfig,
    rate: Rate,
    /// Octets of the socket that 1024 at the agreed rate take, learned from absences.
    cost: u64,
    load: Load,
    /// When that was heard, and how many octets on the wire had been taken from the socket by then.
    heard: Instant,
    taken: u64,
    word: Option<Word>,
}

/// The last word, by the receiver's clock.
#[derive(Clone, Copy, Debug)]
struct Word {
    said: Instant,
    /// What is under way ends, and nothing comes.
    from: Instant,
    /// When the next one is due, and when one is even if it says no more.
    due: Instant,
    old: Instant,
}

impl Room {
    /// A receiver that has not heard of its host yet, of a sender that keeps `rate`.
    pub(super) const fn new(config: FeedbackConfig, rate: Rate) -> Self {
        Self {
            config,
            rate,
            cost: COST_FIRST,
            load: Load {
                backlog_bytes: 0,
                backlog_bytes_max: 0,
                socket_bytes: 0,
                socket_bytes_max: 0,
                is_shared: false,
                absence: None,
            },
            heard: Instant::ZERO,
            taken: 0,
            word: None,
        }
    }

    /// Whether the socket holds enough for words to come in time.
    pub(super) fn serves(&self, load: &Load) -> bool {
        load.is_shared && self.time_for(load.socket_bytes_max) > self.config.rtt * 2
    }

    /// Hears how the host is doing, and how many octets on the wire it has taken from its socket in all;
    /// answers what to say, if something.
    pub(super) fn handle_load(&mut self, now: Instant, load: Load, taken: u64) -> Option<Pause> {
        if now.since(self.heard) > AWAY {
            self.learn(now, load, taken);
        }
        self.load = load;
        self.heard = now;
        self.taken = taken;
        self.say(now)
    }

    /// Speaks if it is time to, and it has looked into the socket lately.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Pause> {
        let word = self.word.as_mut().filter(|word| word.due <= now)?;
        word.due = now + SAY_EVERY;
        if now.since(self.heard) > AWAY {
            return None;
        }
        self.say(now)
    }

    /// When it wants to speak: before the sender falls silent.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.word.map(|word| word.due)
    }

    /// Takes back the last word, if there is one: nobody competes any more.
    pub(super) fn end(&mut self) -> Option<Pause> {
        self.word.take().map(|_| Pause::NONE)
    }

    /// A word, if it says more than the one before, or that is soon too old.
    fn say(&mut self, now: Instant) -> Option<Pause> {
        let max = self.load.socket_bytes_max;
        let room = (max - max / MARGIN).saturating_sub(self.load.socket_bytes);
        let after = self.time_for(room).min(self.config.pause_max);
        let from = now + after;
        let whole = self.time_for(max);
        let better = |word: Word| {
            let more = from.since(word.from.max(now));
            let late = now >= word.said + SAY_EVERY;
            let empty = self.load.socket_bytes <= max / EMPTY;
            empty && more >= whole / EMPTY as u32
                || late && (more >= whole / STEPS || now >= word.old)
        };
        if !self.word.is_none_or(better) {
            return None;
        }
        let len = self.config.pause_max;
        self.word = Some(Word {
            said: now,
            from,
            due: (from - self.config.rtt).max(now + SAY_EVERY),
            old: from + len / 2,
        });
        Some(Pause { after, len })
    }

    /// Learns from what came into the socket since it was heard of last, till the sender fell silent.
    fn learn(&mut self, now: Instant, load: Load, taken: u64) {
        let Some(word) = self.word else { return };
        let came = self.rate.bytes_in(now.min(word.from).since(self.heard));
        let stayed = came.saturating_sub(taken - self.taken);
        let grown = load.socket_bytes.saturating_sub(self.load.socket_bytes);
        let cost = if load.socket_bytes > load.socket_bytes_max - load.socket_bytes_max / MARGIN {
            // nobody knows how much did not fit
            COST_MAX
        } else if stayed > 0 && grown > load.socket_bytes_max / EMPTY {
            grown.saturating_mul(COST_ONE) / stayed
        } else {
            // nothing came that it would have had to hold
            return;
        };
        // too little room given costs less than too much
        let was = self.cost;
        let cost = cost.max((was * 15 + cost) / 16).min(was + was / 8);
        self.cost = cost.clamp(COST_MIN, COST_MAX);
    }

    /// How long it takes until so many octets of the socket are taken.
    fn time_for(&self, socket_bytes: u64) -> Duration {
        self.rate
            .time_for(socket_bytes.saturating_mul(COST_ONE) / self.cost)
    }
}

/// This part of a socket stays empty, if all is as foreseen.
const MARGIN: u64 = 128;
/// A socket is as good as empty that is filled to this part, and whoever has emptied it says so if the last word gave so
/// much less.
const EMPTY: u64 = 16;
/// A word that gives less than this part of a socket more is none.
const STEPS: u32 = 64;
/// Who has not looked for so long has emptied nothing either.
const AWAY: Duration = Duration::from_millis(2);
/// Words about a socket that is not empty are that far apart.
const SAY_EVERY: Duration = Duration::from_millis(1);
const COST_ONE: u64 = 1024;
/// As if each octet on the wire took an eighth more in the socket, as where datagrams are coalesced.
const COST_FIRST: u64 = COST_ONE + COST_ONE / 8;
/// A sender may be slower than agreed, or its octets take more memory.
const COST_MIN: u64 = COST_ONE / 2;
const COST_MAX: u64 = 8 * COST_ONE;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbudp::feedback::{Feedback, Silence, Wish};

    const MS: Duration = Duration::from_millis(1);
    const CONFIG: FeedbackConfig = FeedbackConfig {
        rtt: Duration::from_micros(100),
        pause_max: Duration::from_secs(1),
    };
    /// A megabyte in a millisecond.
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

    fn room(wish: Option<Wish>) -> Option<Pause> {
        wish.and_then(|wish| match wish {
            Wish::Room(room) => Some(room),
            Wish::Pause(_) => None,
        })
    }

    #[test]
    fn a_sender_goes_on_as_long_as_words_come_and_for_a_full_socket_more() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut silence = Silence::new(at(0), CONFIG);
        for now in 0..100 {
            let wish = feedback.handle_load(at(now), load(0, true), 0);
            assert!(wish.is_none_or(|wish| silence.hear(at(now), wish)));
            assert!(!silence.is_on(at(now)), "{now} ms");
        }
        // fifteen millions and a half are free, and each on the wire is thought to take an eighth more
        assert!(!silence.is_on(at(111)));
        assert!(silence.is_on(at(114)));
        let full = feedback.handle_load(at(150), load(8_000_000, true), 0);
        assert!(full.is_some_and(|full| silence.hear(at(150), full)));
        assert!(!silence.is_on(at(150)), "the receiver is back");
    }

    #[test]
    fn a_sender_that_hears_nothing_goes_on_in_the_end() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut silence = Silence::new(at(0), CONFIG);
        let word = feedback
            .handle_load(at(0), load(16_000_000, true), 0)
            .unwrap();
        assert!(silence.hear(at(0), word));
        assert!(silence.is_on(at(1)) && silence.is_on(at(999)));
        assert!(!silence.is_on(at(1001)));
    }

    #[test]
    fn nobody_who_is_alone_says_anything_and_the_last_word_is_taken_back() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        assert_eq!(feedback.handle_load(at(0), load(9_000_000, false), 0), None);
        assert!(feedback.handle_load(at(1), load(0, true), 0).is_some());
        let end = room(feedback.handle_load(at(2), load(0, false), 0)).unwrap();
        assert_eq!(end.len, Duration::ZERO);
        assert_eq!(feedback.handle_load(at(3), load(1, false), 0), None);
        assert_eq!(feedback.poll_timeout(), None);
        let mut silence = Silence::new(at(0), CONFIG);
        let after = Duration::ZERO;
        silence.hear(
            at(0),
            Wish::Pause(Pause {
                after,
                len: MS * 90,
            }),
        );
        assert!(silence.is_on(at(1)));
        assert!(silence.hear(at(2), Wish::Room(end)));
        assert!(!silence.is_on(at(2)) && !silence.is_on(at(3)));
    }

    #[test]
    fn the_next_word_is_due_before_the_silence_and_about_a_socket_looked_into_lately() {
        for fill in [0, 15_000_000] {
            let mut feedback = Feedback::new(CONFIG, RATE);
            let word = room(feedback.handle_load(at(0), load(fill, true), 0)).unwrap();
            let due = feedback.poll_timeout().unwrap();
            assert!(due >= at(0) + SAY_EVERY && due <= at(0) + word.after.max(SAY_EVERY));
            // it was away, and does not know what is in its socket
            assert_eq!(feedback.handle_timeout(due + MS * 50), None);
            assert!(feedback.poll_timeout().unwrap() > due + MS * 50);
            let word = feedback.handle_load(due + MS * 51, load(fill / 2, true), 0);
            assert!(room(word).is_some());
        }
    }

    #[test]
    fn a_socket_that_overflows_is_thought_to_hold_less_and_one_that_does_not_more() {
        for (fill, is_longer) in [(16_000_000, false), (3_000_000, true)] {
            let mut feedback = Feedback::new(CONFIG, RATE);
            let first = room(feedback.handle_load(at(0), load(0, true), 0)).unwrap();
            let mut last = first;
            for nth in 1..20 {
                feedback.handle_load(at(nth * 60), load(fill, true), 0);
                let word = feedback.handle_load(at(nth * 60 + 5), load(0, true), 0);
                last = room(word).unwrap_or(last);
            }
            assert_eq!(last.after > first.after, is_longer, "{first:?} {last:?}");
        }
    }

    #[test]
    fn whoever_has_emptied_its_socket_says_so_at_once_and_else_one_word_in_a_millisecond() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut said = |micros: u64, fill| {
            let now = at(0) + Duration::from_micros(micros);
            feedback.handle_load(now, load(fill, true), 0).is_some()
        };
        assert!(said(0, 16_000_000));
        assert!(!said(250, 12_000_000) && !said(500, 8_000_000));
        assert!(said(750, 0), "it is about to fall asleep");
        assert!(!said(1000, 0) && !said(1500, 60_000), "that was said");
        assert!(said(1750, 60_000));
    }

    #[test]
    fn a_sender_that_was_slow_teaches_nothing() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let first = room(feedback.handle_load(at(0), load(0, true), 0)).unwrap();
        for nth in 1..50 {
            // nothing came while the receiver slept
            feedback.handle_load(at(nth * 20), load(0, true), 0);
        }
        let last = room(feedback.handle_load(at(2000), load(0, true), 0)).unwrap();
        assert_eq!(last.after, first.after);
    }

    #[test]
    fn a_path_that_holds_more_than_the_socket_is_left_to_what_is_foreseen() {
        let rtt = MS * 100;
        let mut feedback = Feedback::new(FeedbackConfig { rtt, ..CONFIG }, RATE);
        assert_eq!(feedback.handle_load(at(0), load(0, true), 0), None);
    }
}
