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
//! Words count time at the agreed rate, and a sender counts the octets that this makes: one that is slower goes on for longer.
//!
//! A word costs the receiver time that it has to share with others, above all that of waking the thread that sends it. So
//! there is only one that says an eighth of a socket more. And who always empties its socket before it goes says so already
//! when it comes back: its sender starts the earlier, and needs no other word.

use core::mem;
use core::time::Duration;

use lighthaul_base::{Instant, Load, Rate};

use super::feedback::{FeedbackConfig, Pause};

/// What a receiver knows of the room in its socket.
#[derive(Clone, Debug)]
pub(super) struct Room {
    config: FeedbackConfig,
    rate: Rate,
    load: Load,
    /// When that was heard, and how many octets on the wire had been taken from the socket by then.
    heard: Instant,
    taken: u64,
    /// It has emptied the socket since it came back last.
    has_emptied: bool,
    memory: Memory,
    /// What came in the last absence is not yet known.
    absence: Option<Absence>,
    word: Option<Word>,
}

/// What a receiver has learned of its socket, for the next object there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Octets of the socket that 1024 on the wire take, learned from absences.
    cost: u64,
    /// In how many turns on end it has emptied the socket.
    emptied: u32,
}

impl Memory {
    /// Nothing but a guess.
    const NONE: Self = Self {
        cost: COST_FIRST,
        emptied: 0,
    };
}

/// What the socket held when an absence was over.
#[derive(Clone, Copy, Debug)]
struct Absence {
    /// Octets on the wire that had been taken before, from a socket that was then empty.
    taken: u64,
    back: Instant,
    fill: u64,
}

/// The last word, by the receiver's clock.
#[derive(Clone, Copy, Debug)]
struct Word {
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
            // what came of the object before has been taken
            has_emptied: true,
            memory: Memory::NONE,
            absence: None,
            word: None,
        }
    }

    /// Is on a socket of which an earlier one has learned this.
    pub(super) const fn remember(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// What it has learned.
    pub(super) const fn memory(&self) -> Memory {
        self.memory
    }

    /// Whether the socket holds enough for words to come in time.
    pub(super) fn serves(&self, load: &Load) -> bool {
        load.is_shared && self.time_for(load.socket_bytes_max) > self.config.rtt * 2
    }

    /// Hears how the host is doing, and how many octets on the wire it has taken from its socket in all;
    /// answers what to say, if something.
    pub(super) fn handle_load(&mut self, now: Instant, load: Load, taken: u64) -> Option<Pause> {
        let is_back = now.since(self.heard) > AWAY;
        if is_back {
            let has_emptied = mem::take(&mut self.has_emptied);
            let absence = Absence {
                taken: self.taken,
                back: now,
                fill: load.socket_bytes,
            };
            // of what was taken in between, the system may still count some
            self.absence = (has_emptied && taken == self.taken).then_some(absence);
            // a word that counted on more than was done teaches nothing of what a socket holds
            let kept = self.word.is_some() && (has_emptied || self.memory.emptied < SURE);
            if kept && self.is_full(load.socket_bytes) {
                // nobody knows how much did not fit
                self.believe(COST_MAX);
            }
            self.memory.emptied = if has_emptied {
                self.memory.emptied.saturating_add(1)
            } else {
                0
            };
        }
        self.load = load;
        self.heard = now;
        self.taken = taken;
        if load.socket_bytes <= load.socket_bytes_max / EMPTY {
            self.has_emptied = true;
            self.learn(now, taken);
        }
        let will_empty = is_back && self.memory.emptied >= SURE;
        self.say(now, if will_empty { 0 } else { load.socket_bytes })
    }

    /// Speaks if it is time to, and it has looked into the socket lately.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Pause> {
        let word = self.word.as_mut().filter(|word| word.due <= now)?;
        word.due = now + SAY_EVERY;
        if now.since(self.heard) > AWAY {
            return None;
        }
        self.say(now, self.load.socket_bytes)
    }

    /// When it wants to speak: before the sender falls silent.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.word.map(|word| word.due)
    }

    /// Takes back the last word, if there is one: nobody competes any more.
    pub(super) fn end(&mut self) -> Option<Pause> {
        self.word.take().map(|_| Pause::NONE)
    }

    /// A word, if it says more than the one before, or that is soon too old: what is left in the socket are `left` octets.
    fn say(&mut self, now: Instant, left: u64) -> Option<Pause> {
        let max = self.load.socket_bytes_max;
        let room = (max - max / MARGIN).saturating_sub(left);
        let after = self.time_for(room).min(self.config.pause_max);
        let from = now + after;
        let step = self.time_for(max / STEPS);
        let is_news = |word: Word| now >= word.old || from.since(word.from.max(now)) >= step;
        if !self.word.is_none_or(is_news) {
            return None;
        }
        let len = self.config.pause_max;
        self.word = Some(Word {
            from,
            due: (from - self.config.rtt).max(now + SAY_EVERY),
            old: from + len / 2,
        });
        Some(Pause { after, len })
    }

    /// Learns from an absence, now that what came in it has been taken from the socket.
    fn learn(&mut self, now: Instant, taken: u64) {
        let Some(absence) = self.absence.take() else {
            return;
        };
        // what came while the socket was emptied was not in it
        let later = self.rate.bytes_in(now.since(absence.back));
        let held = (taken - absence.taken).saturating_sub(later);
        let is_telling = absence.fill > self.load.socket_bytes_max / 4 && held > absence.fill / 4;
        if is_telling && !self.is_full(absence.fill) {
            self.believe(absence.fill.saturating_mul(COST_ONE) / held);
        }
    }

    /// Thinks that what is on the wire costs so much in the socket, or nearly: too little room given costs less than too much.
    fn believe(&mut self, cost: u64) {
        let was = self.memory.cost;
        let less = (was * 3 + cost) / 4;
        let cost = cost.max(less).min(was + was / 8);
        self.memory.cost = cost.clamp(COST_MIN, COST_MAX);
    }

    const fn is_full(&self, socket_bytes: u64) -> bool {
        let max = self.load.socket_bytes_max;
        socket_bytes > max - max / MARGIN
    }

    /// How long it takes until so many octets of the socket are taken.
    fn time_for(&self, socket_bytes: u64) -> Duration {
        self.rate
            .time_for(socket_bytes.saturating_mul(COST_ONE) / self.memory.cost)
    }
}

/// This part of a socket stays empty, if all is as foreseen.
const MARGIN: u64 = 128;
/// A socket is as good as empty that is filled to this part.
const EMPTY: u64 = 16;
/// A word that gives less than this part of a socket more is none.
const STEPS: u64 = 8;
/// Whoever has emptied its socket in so many turns on end will do so in the next.
const SURE: u32 = 8;
/// Who has not looked for so long has emptied nothing either.
const AWAY: Duration = Duration::from_millis(2);
/// What is due is asked for that far apart.
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
        // by the octets that leave, so that one that is slower goes on for longer
        for octets in [1_000_000, 500_000] {
            let mut feedback = Feedback::new(CONFIG, RATE);
            let mut silence = Silence::new(at(0), CONFIG, RATE);
            for now in 0..100 {
                let wish = feedback.handle_load(at(now), load(0, true), 0);
                assert!(wish.is_none_or(|wish| silence.hear(at(now), wish)));
                assert!(!silence.is_on(at(now)), "{now} ms");
                silence.spend(octets);
            }
            // sixteen millions are free, and each on the wire is thought to take an eighth more
            let full = 14_000_000 / u64::from(octets);
            for now in 100..100 + full - 2 {
                assert!(!silence.is_on(at(now)), "{now} ms");
                silence.spend(octets);
            }
            for now in 100 + full - 2..100 + full {
                silence.is_on(at(now));
                silence.spend(octets);
            }
            assert!(silence.is_on(at(100 + full)));
            let full = feedback.handle_load(at(150), load(8_000_000, true), 0);
            assert!(full.is_some_and(|full| silence.hear(at(150), full)));
            assert!(!silence.is_on(at(150)), "the receiver is back");
        }
    }

    #[test]
    fn a_sender_that_hears_nothing_goes_on_in_the_end() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut silence = Silence::new(at(0), CONFIG, RATE);
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
        let mut silence = Silence::new(at(0), CONFIG, RATE);
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

    /// What a receiver says after so many absences, behind each of which its socket holds `held` octets of the wire in `fill` of its
    /// own, and `later` ones come while it empties it.
    fn learned(absences: u64, [held, later]: [u64; 2], fill: u64) -> Duration {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut last = room(feedback.handle_load(at(0), load(0, true), 0)).unwrap();
        let mut taken = 0;
        for nth in 1..=absences {
            let back = at(nth * 60);
            feedback.handle_load(back, load(fill, true), taken);
            taken += held + later;
            let word = feedback.handle_load(back + MS, load(0, true), taken);
            last = room(word).unwrap_or(last);
        }
        last.after
    }

    #[test]
    fn a_socket_that_overflows_is_thought_to_hold_less() {
        let first = learned(0, [0, 0], 0);
        assert!(learned(20, [14_000_000, 0], 16_000_000) < first / 4);
    }

    #[test]
    fn a_socket_that_holds_more_is_thought_to_but_never_too_much() {
        let first = learned(0, [0, 0], 0);
        let mut last = Duration::ZERO;
        // however much of what was taken may have come while it was
        for later in [0, 500_000, 1_000_000] {
            let after = learned(7, [8_000_000, later], 8_000_000);
            let most = RATE.time_for(15_875_000);
            assert!(after > last && after <= most, "{later}: {after:?}");
            last = after;
        }
        assert!(last > first + first / 20, "{last:?} {first:?}");
    }

    #[test]
    fn a_word_says_an_eighth_of_a_socket_more_than_the_one_before() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut said = |micros: u64, fill| {
            let now = at(0) + Duration::from_micros(micros);
            feedback.handle_load(now, load(fill, true), 0).is_some()
        };
        assert!(said(0, 16_000_000));
        assert!(!said(250, 15_000_000) && said(500, 13_000_000));
        assert!(!said(1000, 12_000_000) && said(1500, 0));
        assert!(!said(2000, 0) && !said(3000, 60_000), "that was said");
        assert!(said(3400, 60_000));
    }

    #[test]
    fn whoever_always_empties_its_socket_says_so_when_it_comes_back() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let mut taken = 0;
        let mut turn = |nth: u64, left| {
            let now = at(nth * 60);
            let back = feedback.handle_load(now, load(15_500_000, true), taken);
            taken += 15_500_000 - left;
            let end = feedback.handle_load(now + MS, load(left, true), taken);
            (room(back).map(|word| word.after), end.is_some())
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
    fn what_was_learned_of_a_socket_is_known_for_the_next_object() {
        let mut first = Feedback::new(CONFIG, RATE);
        let mut taken = 0;
        for nth in 0..9 {
            first.handle_load(at(nth * 60), load(8_000_000, true), taken);
            taken += 9_000_000;
            first.handle_load(at(nth * 60 + 1), load(0, true), taken);
        }
        let after = |feedback: &mut Feedback| {
            let word = feedback.handle_load(at(600), load(9_000_000, true), 0);
            room(word).unwrap().after
        };
        let mut next = Feedback::new(CONFIG, RATE);
        next.remember(first.memory());
        let (known, guessed) = (after(&mut next), after(&mut Feedback::new(CONFIG, RATE)));
        assert!(known > MS * 14 && guessed < MS * 7, "{known:?} {guessed:?}");
    }

    #[test]
    fn what_the_system_still_counts_when_it_was_taken_teaches_nothing() {
        let mut feedback = Feedback::new(CONFIG, RATE);
        let first = room(feedback.handle_load(at(0), load(0, true), 0)).unwrap();
        let mut last = first;
        for nth in 1..50 {
            // of six millions that came, four were taken, and five are counted
            let now = at(nth * 60);
            let taken = nth * 4_000_000;
            feedback.handle_load(now + MS * 6, load(5_000_000, true), taken);
            let word = feedback.handle_load(now + MS * 7, load(0, true), taken + 2_000_000);
            last = room(word).unwrap_or(last);
            feedback.handle_load(now + MS * 8, load(0, true), taken + 2_000_000);
        }
        assert_eq!(last.after, first.after);
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
