//! Messages that survive their connection: each is kept until the peer has heard it, and told again on the next one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;

use super::PeerMisbehaved;
use super::wire::Letter;

/// What is told to the peer and heard from it, both counted.
#[derive(Debug)]
pub struct Mail {
    /// The number of the first message that is kept.
    first: u64,
    kept: VecDeque<Vec<u8>>,
    /// The number of the next one to be told on this connection.
    next: u64,
    /// Messages heard, and how many of them the peer knows of.
    heard: u64,
    told: u64,
    /// When the peer is told at the latest, be it nothing new: that is a sign of life.
    tell_at: Instant,
}

impl Mail {
    /// Nothing was said yet.
    pub const fn new(now: Instant) -> Self {
        Self {
            first: 0,
            kept: VecDeque::new(),
            next: 0,
            heard: 0,
            told: 0,
            tell_at: now,
        }
    }

    /// How many messages were heard.
    pub const fn heard(&self) -> u64 {
        self.heard
    }

    /// Whether too much is kept.
    pub fn is_full(&self) -> bool {
        self.kept.len() > KEPT_MAX
    }

    /// Says something, in its turn.
    pub fn push(&mut self, letter: &Letter<'_>) {
        self.kept.push_back(letter.encode());
    }

    /// One message more was heard.
    pub fn hear(&mut self, now: Instant) {
        self.heard += 1;
        self.tell_at = if self.heard - self.told >= HEARD_EACH {
            now
        } else {
            self.tell_at.min(now + HEARD_AFTER)
        };
    }

    /// The peer has heard so many.
    pub fn settle(&mut self, count: u64) -> Result<(), PeerMisbehaved> {
        if count > self.next {
            return Err(PeerMisbehaved::Unheard(count));
        }
        let known = count.saturating_sub(self.first);
        self.kept.drain(..known as usize);
        self.first += known;
        Ok(())
    }

    /// Goes on over another connection with a peer that has heard so many.
    pub fn resume(&mut self, now: Instant, count: u64) -> Result<(), PeerMisbehaved> {
        if count < self.first {
            return Err(PeerMisbehaved::Unheard(count));
        }
        self.settle(count)?;
        self.next = self.first;
        self.tell_at = now;
        Ok(())
    }

    /// The next message to tell.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        let nth = (self.next - self.first) as usize;
        if let Some(octets) = self.kept.get(nth) {
            self.next += 1;
            return Some(octets.clone());
        }
        if now < self.tell_at {
            return None;
        }
        self.told = self.heard;
        self.tell_at = now + SIGN_OF_LIFE;
        let count = self.heard;
        Some(Letter::Heard { count }.encode())
    }

    /// When something is to be told.
    pub fn due(&self) -> Instant {
        let waits = self.next - self.first < self.kept.len() as u64;
        if waits { Instant::ZERO } else { self.tell_at }
    }
}

/// So many messages a peer that listens never leaves unheard.
const KEPT_MAX: usize = 1 << 18;
/// Every so many messages, and so long after one, the peer is told that they were heard.
const HEARD_EACH: u64 = 64;
const HEARD_AFTER: Duration = Duration::from_millis(50);
/// How often it hears from us when there is nothing to say.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(octets: &[u8]) -> Option<u64> {
        match Letter::decode(octets) {
            Ok(Letter::Question { turns }) => Some(turns),
            _ => None,
        }
    }

    proptest! {
        /// Whatever breaks when, the peer hears everything once and in order.
        #[test]
        fn every_message_is_heard_once(steps in prop::collection::vec((0_u8..4, 0_u64..20), 1..200)) {
            let (mut ours, mut theirs) = (Mail::new(Instant::ZERO), Mail::new(Instant::ZERO));
            let (mut said, mut now, mut expected) = (0, Instant::ZERO, 0);
            for (what, count) in steps.into_iter().chain([(0, 1), (3, 0), (2, 1000)]) {
                now += Duration::from_millis(count);
                match what {
                    0 => for _ in 0..count {
                        ours.push(&Letter::Question { turns: said });
                        said += 1;
                    },
                    1 => ours.settle(theirs.heard()).unwrap(),
                    2 => for _ in 0..count {
                        let Some(octets) = ours.poll(now) else { break };
                        if let Some(turns) = number(&octets) {
                            prop_assert_eq!(turns, expected);
                            theirs.hear(now);
                            expected += 1;
                        }
                    },
                    _ => {
                        // the connection breaks with some of it on its way
                        for _ in 0..count {
                            ours.poll(now);
                        }
                        ours.resume(now, theirs.heard()).unwrap();
                    }
                }
            }
            prop_assert_eq!(theirs.heard(), said);
        }
    }

    #[test]
    fn what_was_never_told_cannot_have_been_heard() {
        let mut mail = Mail::new(Instant::ZERO);
        mail.push(&Letter::Question { turns: 0 });
        assert_eq!(mail.settle(1), Err(PeerMisbehaved::Unheard(1)));
        mail.poll(Instant::ZERO).unwrap();
        assert_eq!(mail.settle(1), Ok(()));
        assert_eq!(
            mail.resume(Instant::ZERO, 0),
            Err(PeerMisbehaved::Unheard(0))
        );
    }

    #[test]
    fn who_has_nothing_to_say_gives_signs_of_life() {
        let mut mail = Mail::new(Instant::ZERO);
        let mut signs = 0;
        for second in 0..10 {
            let now = Instant::ZERO + Duration::from_secs(second);
            assert!(mail.due() <= now);
            signs += core::iter::from_fn(|| mail.poll(now)).count();
        }
        assert_eq!(signs, 10);
    }
}
