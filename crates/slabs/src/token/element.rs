//! One element of a cluster: [`Element`] is the state machine, [`Slot`] the time in which it may send.
//!
//! ```text
//!          token arrives, and is not too old             end of the slot, or nothing to send
//! waiting -------------------------------------> holding ------------------------------------> offering to the next
//!    ^--------------------- news that the next element has the token -------------------------/
//! ```
//!
//! If no report of a token arrives for too long, the lowest living element proposes a new generation.

use alloc::collections::VecDeque;
use lighthaul_base::Instant;

use super::Config;
use super::peers::Peers;
use super::wire::{ElementMessage, Generation, Mark, MessageBody};

/// State machine of an element that takes turns with other elements.
#[derive(Clone, Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Element {
    config: Config,
    peers: Peers,
    seen: Instant,
    /// Lowest generation of a token that this element accepts.
    generation_min: Generation,
    /// Newest mark that was received.
    best: Mark,
    /// Time of the latest report of the mark.
    news_at: Instant,
    wants: bool,
    serves: bool,
    hold: Option<Hold>,
    offer: Option<Offer>,
    proposal: Option<Proposal>,
    /// Earliest time of the next proposal.
    propose_at: Instant,
    /// Numbers of recent beats, and the times at which they were sent.
    recent_beats: VecDeque<(u64, Instant)>,
    count: u64,
    beat_at: Instant,
    out: VecDeque<ElementMessage>,
    taken: u64,
    created: u64,
}

/// Period in which an element has the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Start of the period.
    pub from: Instant,
    /// End of the period (exclusive).
    pub till: Instant,
}

/// Token that this element holds, or has just passed on.
#[derive(Clone, Copy, Debug)]
struct Hold {
    mark: Mark,
    slot: Slot,
    /// Time of the latest announcement to the other elements.
    announced_at: Instant,
    passed: bool,
}

/// Token that was passed on, until a report confirms its arrival.
#[derive(Clone, Copy, Debug)]
struct Offer {
    mark: Mark,
    message: ElementMessage,
    again_at: Instant,
    until: Instant,
}

/// Generation that this element proposes, and a bit mask of the elements that have agreed.
#[derive(Clone, Copy, Debug)]
struct Proposal {
    generation: Generation,
    agreed: u32,
}

impl Element {
    /// Returns an element without any knowledge. `count` must exceed the beat numbers of earlier runs; the time of
    /// day serves for that. Panics unless `config` passes [`Config::check`].
    pub fn new(now: Instant, config: Config, count: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        Self {
            config,
            peers: Peers::new(config),
            seen: now,
            generation_min: Generation::default(),
            best: Mark::default(),
            news_at: now,
            wants: false,
            serves: false,
            hold: None,
            offer: None,
            proposal: None,
            propose_at: now,
            recent_beats: VecDeque::new(),
            count,
            beat_at: now,
            out: VecDeque::new(),
            taken: 0,
            created: 0,
        }
    }

    /// Returns the parameters of the cluster.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the numbers of times that the token was taken, and created.
    pub const fn counts(&self) -> (u64, u64) {
        (self.taken, self.created)
    }

    /// Returns the serving state of another element, or `None` if it has not sent a beat recently.
    pub fn hears_served(&self, now: Instant, nth: u8) -> Option<bool> {
        self.peers.serves(now, nth)
    }

    /// True if this element has the token, used or idle.
    pub fn holds(&self) -> bool {
        self.hold.is_some_and(|hold| !hold.passed)
    }

    /// Returns the slot in which this element may send, as of the latest call.
    pub fn slot(&self) -> Option<Slot> {
        let hold = self.hold.filter(|hold| hold.passed || self.wants)?;
        (self.seen < hold.slot.till).then_some(hold.slot)
    }

    /// Sets the demand of this element: true if it has data to send.
    pub fn handle_want(&mut self, now: Instant, wants: bool) {
        self.advance(now);
        if wants && !self.wants {
            if let Some(hold) = self.hold.as_mut().filter(|hold| !hold.passed) {
                hold.slot = Slot {
                    from: now,
                    till: now + self.config.slot,
                };
            }
            // delay the beat in case the demand changes quickly
            let last = self.recent_beats.back().map_or(now, |(_, at)| *at);
            self.beat_at = self.beat_at.min(last + self.config.beat / 8);
        }
        self.wants = wants;
        self.work(now);
    }

    /// Sets the serving state: true if this element takes its share of the traffic to a shared address. All other
    /// elements are notified at once.
    pub fn handle_service(&mut self, now: Instant, serves: bool) {
        if serves != self.serves {
            self.serves = serves;
            self.beat_at = now;
        }
        self.handle_timeout(now);
    }

    /// Handles a message of another element.
    pub fn handle_message(&mut self, now: Instant, message: ElementMessage) {
        self.advance(now);
        let ElementMessage { from, to, body } = message;
        let (me, members) = (self.config.me, self.config.members);
        if to != me || from == me || from >= members {
            return;
        }
        match body {
            MessageBody::Beat {
                count,
                generation_min,
                wants,
                serves,
                holds,
            } => {
                if self.peers.handle_beat(now, from, count, (wants, serves)) {
                    if let Some(mark) = holds {
                        self.handle_mark(now, mark);
                    }
                    self.raise_minimum(now, generation_min);
                }
            }
            MessageBody::Token { mark, beat } => self.handle_token(now, mark, beat),
            MessageBody::Propose { generation } => self.handle_proposal(now, from, generation),
            MessageBody::Answer { generation, agreed } => {
                self.handle_answer(now, from, generation, agreed);
            }
        }
        self.work(now);
    }

    /// Runs expired timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.work(now);
    }

    /// Returns the next message to send.
    pub fn poll_message(&mut self) -> Option<ElementMessage> {
        self.out.pop_front()
    }

    /// Returns the time of the next timeout.
    pub fn poll_timeout(&self) -> Instant {
        let offer = self.offer.map_or(Instant::NEVER, |offer| offer.again_at);
        let hold = self.hold.map_or(Instant::NEVER, |hold| {
            if hold.passed {
                hold.slot.till
            } else {
                hold.slot.till - self.config.guard
            }
        });
        self.beat_at.min(offer).min(hold)
    }

    /// Advances the time. After a long time without calls, all knowledge of others is outdated.
    fn advance(&mut self, now: Instant) {
        if now > self.seen + self.config.fresh / 2 {
            self.news_at = now;
            self.proposal = None;
            self.peers.forget();
        }
        self.seen = self.seen.max(now);
    }

    fn work(&mut self, now: Instant) {
        self.take_turn(now);
        self.create_token(now);
        if now >= self.beat_at {
            self.propose(now);
            self.beat(now);
        }
        if let Some(offer) = self.offer.as_mut().filter(|offer| now >= offer.again_at) {
            let message = offer.message;
            offer.again_at = now + self.config.beat / 2;
            if now >= offer.until {
                self.offer = None;
            }
            self.send(message);
        }
    }

    /// Passes the token on, or keeps it.
    fn take_turn(&mut self, now: Instant) {
        let Some(hold) = &mut self.hold else {
            return;
        };
        let lapsed = now >= hold.announced_at + self.config.fresh;
        if lapsed || hold.passed && now >= hold.slot.till {
            // a token that was not announced for so long may count as lost at the others
            self.hold = None;
            return;
        }
        let is_over = now + self.config.guard >= hold.slot.till;
        if hold.passed || self.wants && !is_over {
            return;
        }
        match self.peers.next_that_wants(now) {
            Some((to, beat)) => self.pass(now, to, beat),
            None if is_over => hold.slot.till = now.max(hold.slot.till) + self.config.slot,
            None => {}
        }
    }

    fn pass(&mut self, now: Instant, to: u8, beat: u64) {
        let Some(hold) = &mut self.hold else {
            return;
        };
        let mark = hold.mark.next();
        hold.passed = true;
        if !self.wants || now >= hold.slot.till {
            self.hold = None;
        }
        let message = self.message(to, MessageBody::Token { mark, beat });
        self.offer = Some(Offer {
            mark,
            message,
            again_at: now + self.config.beat / 2,
            until: now + self.config.fresh / 2,
        });
        (self.best, self.news_at) = (mark, now);
        self.send(message);
    }

    fn handle_token(&mut self, now: Instant, mark: Mark, beat: u64) {
        let fresh = self.config.fresh;
        let is_fresh = |sent: &(u64, Instant)| sent.0 == beat && now < sent.1 + fresh;
        if mark > self.best
            && mark.generation >= self.generation_min
            && self.recent_beats.iter().any(is_fresh)
        {
            self.taken += 1;
            self.take(now, mark);
        }
    }

    fn take(&mut self, now: Instant, mark: Mark) {
        let till = now + self.config.slot;
        self.hold = Some(Hold {
            mark,
            slot: Slot { from: now, till },
            announced_at: now,
            passed: false,
        });
        (self.best, self.news_at) = (mark, now);
        self.generation_min = self.generation_min.max(mark.generation);
        self.offer = None;
        self.proposal = None;
        // announce the token to all, so that no element proposes a new one
        self.beat(now);
    }

    /// Handles the report of another element that it has the token.
    fn handle_mark(&mut self, now: Instant, mark: Mark) {
        if mark < self.best {
            return;
        }
        (self.best, self.news_at) = (mark, now);
        self.proposal = None;
        if self
            .hold
            .is_some_and(|hold| !hold.passed && hold.mark < mark)
        {
            self.hold = None;
        }
        if self.offer.is_some_and(|offer| offer.mark <= mark) {
            self.offer = None;
        }
    }

    /// Raises the lowest accepted generation to the value of another element. Our own token moves to a higher
    /// generation.
    fn raise_minimum(&mut self, now: Instant, generation_min: Generation) {
        if generation_min <= self.generation_min {
            return;
        }
        self.generation_min = generation_min;
        self.offer = self
            .offer
            .filter(|offer| offer.mark.generation >= generation_min);
        self.proposal = self
            .proposal
            .filter(|proposal| proposal.generation >= generation_min);
        if let Some(hold) = self.hold.as_mut().filter(|hold| !hold.passed) {
            self.generation_min = generation_min.after(self.config.me);
            hold.mark = Mark {
                generation: self.generation_min,
                sequence: 0,
            };
            (self.best, self.news_at) = (hold.mark, now);
            self.beat(now);
        }
    }

    /// Proposes a new token if the old one is lost and this is the lowest living element.
    fn propose(&mut self, now: Instant) {
        let is_quiet = now >= self.news_at + self.config.silence();
        if self.hold.is_some() || !is_quiet || self.peers.is_lower_living(now) {
            self.proposal = None;
            return;
        }
        if self.proposal.is_none() {
            if now < self.propose_at {
                return;
            }
            self.generation_min = self.generation_min.after(self.config.me);
            self.proposal = Some(Proposal {
                generation: self.generation_min,
                agreed: 0,
            });
        }
        let generation = self.generation_min;
        for to in self.peers.others() {
            self.send(self.message(to, MessageBody::Propose { generation }));
        }
        self.create_token(now);
    }

    fn handle_proposal(&mut self, now: Instant, from: u8, generation: Generation) {
        let is_quiet = now >= self.news_at + self.config.life();
        if self.holds() || !is_quiet || generation < self.generation_min {
            if self.holds() {
                self.raise_minimum(now, generation);
            }
            let body = MessageBody::Answer {
                generation,
                agreed: false,
            };
            self.send(self.message(from, body));
            return;
        }
        self.raise_minimum(now, generation);
        let agreed = true;
        self.send(self.message(from, MessageBody::Answer { generation, agreed }));
    }

    fn handle_answer(&mut self, now: Instant, from: u8, generation: Generation, agreed: bool) {
        let Some(proposal) = &mut self.proposal else {
            return;
        };
        if proposal.generation != generation {
            return;
        }
        if agreed {
            proposal.agreed |= 1 << from;
        } else {
            self.proposal = None;
            self.propose_at = now + self.config.beat * 2;
        }
    }

    /// Creates the token once all living elements have agreed.
    fn create_token(&mut self, now: Instant) {
        let Some(proposal) = self.proposal else {
            return;
        };
        let has_agreed = |nth: u8| proposal.agreed & 1 << nth != 0;
        let waits = |nth: u8| self.peers.is_living(now, nth) && !has_agreed(nth);
        if self.peers.others().any(waits) {
            return;
        }
        self.created += 1;
        let mark = Mark {
            generation: proposal.generation,
            sequence: 0,
        };
        self.take(now, mark);
    }

    fn beat(&mut self, now: Instant) {
        self.count += 1;
        self.beat_at = now + self.config.beat;
        let fresh = self.config.fresh;
        self.recent_beats.retain(|(_, at)| now < *at + fresh);
        if self.recent_beats.len() == RECENT_BEATS_MAX {
            self.recent_beats.pop_front();
        }
        self.recent_beats.push_back((self.count, now));
        let hold = self.hold.as_mut().filter(|hold| !hold.passed);
        let holds = hold.map(|hold| {
            hold.announced_at = now;
            hold.mark
        });
        let body = MessageBody::Beat {
            count: self.count,
            generation_min: self.generation_min,
            wants: self.wants,
            serves: self.serves,
            holds,
        };
        for to in self.peers.others() {
            self.send(self.message(to, body));
        }
    }

    const fn message(&self, to: u8, body: MessageBody) -> ElementMessage {
        let from = self.config.me;
        ElementMessage { from, to, body }
    }

    fn send(&mut self, message: ElementMessage) {
        if self.out.len() == OUT_MAX {
            // keep the newest messages for a driver that takes none for a while
            self.out.pop_front();
        }
        self.out.push_back(message);
    }
}

/// Number of recent beats that are remembered.
const RECENT_BEATS_MAX: usize = 256;
/// Maximum number of messages that wait for the driver.
const OUT_MAX: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn single_element_keeps_the_channel() {
        let config = Config::new(3, 1);
        let mut element = Element::new(Instant::ZERO, config, 0);
        element.handle_want(Instant::ZERO, true);
        let mut now = Instant::ZERO;
        let mut since = None;
        while now < Instant::from_nanos(1_000_000_000) {
            now = now.max(element.poll_timeout());
            element.handle_timeout(now);
            while element.poll_message().is_some() {}
            match (since, element.slot()) {
                (None, Some(_)) => since = Some(now),
                (Some(_), slot) => assert!(slot.is_some(), "it is lost at {now}"),
                (None, None) => {}
            }
        }
        let limit = Instant::ZERO + config.silence() + config.beat * 2;
        assert!(since.is_some_and(|since| since < limit));
        assert_eq!(element.counts(), (0, 1));
    }

    #[test]
    fn delayed_token_is_refused() {
        let config = Config::new(2, 1);
        let mut element = Element::new(Instant::ZERO, config, 0);
        element.handle_timeout(Instant::ZERO);
        let mark = Mark::default().next();
        let body = MessageBody::Token { mark, beat: 1 };
        let message = ElementMessage {
            from: 0,
            to: 1,
            body,
        };
        let late = Instant::ZERO + config.fresh;
        let mut other = element.clone();
        element.handle_message(late, message);
        assert!(!element.holds());
        other.handle_message(late - Duration::from_nanos(1), message);
        assert!(other.holds());
    }
}
