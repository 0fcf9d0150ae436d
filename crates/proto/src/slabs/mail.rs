//! Messages that survive their connection: each is kept until the peer acknowledges it, and sent again on the next
//! connection.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;

use super::PeerMisbehaved;
use super::wire::Letter;

/// Queue of messages to the peer, and count of messages received from it.
#[derive(Debug)]
pub struct Mail {
    /// Number of the first message in `kept`.
    first: u64,
    kept: VecDeque<Vec<u8>>,
    /// Number of the next message to send on this connection.
    next: u64,
    /// Number of messages received, and the number that was last acknowledged to the peer.
    heard: u64,
    told: u64,
    /// Time of the next acknowledgment. It is sent even without a new message, as a keepalive.
    tell_at: Instant,
}

impl Mail {
    /// Returns an empty queue.
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

    /// Returns the number of messages received.
    pub const fn heard(&self) -> u64 {
        self.heard
    }

    /// True if too many messages wait for an acknowledgment.
    pub fn is_full(&self) -> bool {
        self.kept.len() > KEPT_MAX
    }

    /// Appends a message.
    pub fn push(&mut self, letter: &Letter<'_>) {
        self.kept.push_back(letter.encode());
    }

    /// Counts a received message.
    pub fn hear(&mut self, now: Instant) {
        self.heard += 1;
        self.tell_at = if self.heard - self.told >= HEARD_EACH {
            now
        } else {
            self.tell_at.min(now + HEARD_AFTER)
        };
    }

    /// Drops the messages that the peer has acknowledged: `count` is their total number.
    pub fn settle(&mut self, count: u64) -> Result<(), PeerMisbehaved> {
        if count > self.next {
            return Err(PeerMisbehaved::Unheard(count));
        }
        let known = count.saturating_sub(self.first);
        self.kept.drain(..known as usize);
        self.first += known;
        Ok(())
    }

    /// Continues on another connection, with a peer that has received `count` messages. Later messages are sent
    /// again.
    pub fn resume(&mut self, now: Instant, count: u64) -> Result<(), PeerMisbehaved> {
        if count < self.first {
            return Err(PeerMisbehaved::Unheard(count));
        }
        self.settle(count)?;
        self.next = self.first;
        self.tell_at = now;
        Ok(())
    }

    /// Returns the next message to send, which may be an acknowledgment.
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

    /// Returns the time of the next message.
    pub fn due(&self) -> Instant {
        let waits = self.next - self.first < self.kept.len() as u64;
        if waits { Instant::ZERO } else { self.tell_at }
    }
}

/// Limit of unacknowledged messages, which no conforming peer exceeds.
const KEPT_MAX: usize = 1 << 18;
/// Number of received messages, and time, after which an acknowledgment is sent.
const HEARD_EACH: u64 = 64;
const HEARD_AFTER: Duration = Duration::from_millis(50);
/// Interval of keepalives.
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
        /// For any sequence of broken connections, the peer receives every message once and in order.
        #[test]
        fn every_message_is_received_once_and_in_order(steps in prop::collection::vec((0_u8..4, 0_u64..20), 1..200)) {
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
                        // the connection breaks with some messages in flight
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
    fn acknowledgment_of_unsent_message_is_refused() {
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
    fn idle_side_sends_keepalives() {
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
