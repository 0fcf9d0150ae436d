//! Messages that outlive their connection.
//!
//! A [`MessageQueue`] keeps each message until the peer acknowledges it, and sends it again on the
//! next connection. Both sides count messages from zero, so a message needs no number and arrives
//! once, in order:
//!
//! ```text
//! 0 ... first ............ next ............ first + kept.len()
//!  acked      |  sent, kept     |  to send        |
//! ```
//!
//! An acknowledgment also serves as a keepalive, once a second. The queue neither connects nor
//! times out.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;

use super::PeerMisbehaved;
use super::wire::Control;

/// Queue of messages to the peer, and count of messages received from it.
#[derive(Debug)]
pub struct MessageQueue {
    /// Number of the first message in `kept`.
    first: u64,
    kept: VecDeque<Vec<u8>>,
    /// Number of the next message to send on this connection.
    next: u64,
    /// Number of received messages.
    received: u64,
    /// Number of messages that was last acknowledged to the peer.
    acked: u64,
    /// Time of the next acknowledgment. It is sent even without a new message, as a keepalive.
    ack_at: Instant,
}

impl MessageQueue {
    /// Returns an empty queue.
    pub const fn new(now: Instant) -> Self {
        Self {
            first: 0,
            kept: VecDeque::new(),
            next: 0,
            received: 0,
            acked: 0,
            ack_at: now,
        }
    }

    /// Returns the number of messages received.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// True if too many messages wait for an acknowledgment.
    pub fn is_full(&self) -> bool {
        self.kept.len() > KEPT_MAX
    }

    /// Appends a message.
    pub fn push(&mut self, message: &Control<'_>) {
        self.kept.push_back(message.encode());
    }

    /// Counts a received message.
    pub fn count_received(&mut self, now: Instant) {
        self.received += 1;
        self.ack_at = if self.received - self.acked >= ACK_EVERY_MESSAGES {
            now
        } else {
            self.ack_at.min(now + ACK_DELAY)
        };
    }

    /// Drops the messages that the peer has acknowledged: `count` is their total number.
    pub fn handle_ack(&mut self, count: u64) -> Result<(), PeerMisbehaved> {
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
        self.handle_ack(count)?;
        self.next = self.first;
        self.ack_at = now;
        Ok(())
    }

    /// Returns the next message to send, which may be an acknowledgment.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        let nth = (self.next - self.first) as usize;
        if let Some(octets) = self.kept.get(nth) {
            self.next += 1;
            return Some(octets.clone());
        }
        if now < self.ack_at {
            return None;
        }
        self.acked = self.received;
        self.ack_at = now + KEEPALIVE_INTERVAL;
        let count = self.received;
        Some(Control::Ack { count }.encode())
    }

    /// Returns the time of the next message.
    pub fn due(&self) -> Instant {
        let waits = self.next - self.first < self.kept.len() as u64;
        if waits { Instant::ZERO } else { self.ack_at }
    }
}

/// Limit of unacknowledged messages, which no conforming peer exceeds.
const KEPT_MAX: usize = 1 << 18;
/// Number of received messages after which an acknowledgment is sent.
const ACK_EVERY_MESSAGES: u64 = 64;
/// Time after a received message at which an acknowledgment is sent at the latest.
const ACK_DELAY: Duration = Duration::from_millis(50);
/// Interval of keepalives.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(octets: &[u8]) -> Option<u64> {
        match Control::decode(octets) {
            Ok(Control::Question { turns }) => Some(turns),
            _ => None,
        }
    }

    proptest! {
        /// For any sequence of broken connections, the peer receives every message once and in order.
        #[test]
        fn every_message_is_received_once_and_in_order(steps in prop::collection::vec((0_u8..4, 0_u64..20), 1..200)) {
            let (mut ours, mut theirs) = (MessageQueue::new(Instant::ZERO), MessageQueue::new(Instant::ZERO));
            let (mut sent, mut now, mut expected) = (0, Instant::ZERO, 0);
            for (what, count) in steps.into_iter().chain([(0, 1), (3, 0), (2, 1000)]) {
                now += Duration::from_millis(count);
                match what {
                    0 => for _ in 0..count {
                        ours.push(&Control::Question { turns: sent });
                        sent += 1;
                    },
                    1 => ours.handle_ack(theirs.received()).unwrap(),
                    2 => for _ in 0..count {
                        let Some(octets) = ours.poll(now) else { break };
                        if let Some(turns) = number(&octets) {
                            prop_assert_eq!(turns, expected);
                            theirs.count_received(now);
                            expected += 1;
                        }
                    },
                    _ => {
                        // the connection breaks with some messages in flight
                        for _ in 0..count {
                            ours.poll(now);
                        }
                        ours.resume(now, theirs.received()).unwrap();
                    }
                }
            }
            prop_assert_eq!(theirs.received(), sent);
        }
    }

    #[test]
    fn acknowledgment_of_unsent_message_is_refused() {
        let mut queue = MessageQueue::new(Instant::ZERO);
        queue.push(&Control::Question { turns: 0 });
        assert_eq!(queue.handle_ack(1), Err(PeerMisbehaved::Unheard(1)));
        queue.poll(Instant::ZERO).unwrap();
        assert_eq!(queue.handle_ack(1), Ok(()));
        assert_eq!(
            queue.resume(Instant::ZERO, 0),
            Err(PeerMisbehaved::Unheard(0))
        );
    }

    #[test]
    fn idle_side_sends_keepalives() {
        let mut queue = MessageQueue::new(Instant::ZERO);
        let mut signs = 0;
        for second in 0..10 {
            let now = Instant::ZERO + Duration::from_secs(second);
            assert!(queue.due() <= now);
            signs += core::iter::from_fn(|| queue.poll(now)).count();
        }
        assert_eq!(signs, 10);
    }
}
