//! Elements of a cluster in virtual time, with checks of their guarantees.
//!
//! A [`Cluster`] joins real machines by a network that loses, delays and doubles messages.
//! [`Watch`] measures how long several elements had the channel at once, and how long none had the
//! token. Tests bound both numbers.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use lighthaul_base::{Instant, Rng};
use lighthaul_slabs::token::{Config, Element, ElementMessage, Slot};

/// Probabilities of message faults, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Messages that are lost.
    pub lost: u64,
    /// Messages that arrive up to 400 ms late.
    pub late: u64,
    /// Messages that arrive twice.
    pub doubled: u64,
}

/// Elements of a cluster, the network between them, and the checker.
#[derive(Debug)]
pub struct Cluster {
    now: Instant,
    /// Elements, or `None` for failed elements.
    pub elements: Vec<Option<Element>>,
    /// True for elements with data to send.
    pub wants: Vec<bool>,
    inbox: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    serial: u64,
    rng: Rng,
    /// Faults of the network.
    pub faults: Faults,
    /// Parameters of the first element. The others differ in their number.
    pub config: Config,
    /// Checker of the guarantees.
    pub watch: Watch,
    lives: u64,
}

/// Checker of the guarantees, with counters.
#[derive(Debug, Default)]
pub struct Watch {
    /// Time for which each element had the channel.
    pub had: Vec<Duration>,
    /// Longest time for which several elements had the channel.
    pub shared_max: Duration,
    /// Present time for which several elements have had the channel.
    pub shared: Duration,
    /// Longest time for which no element had the token.
    pub empty_max: Duration,
    empty: Duration,
    /// Messages sent.
    pub messages: u64,
}

impl Cluster {
    /// Starts a cluster of `count` elements, which all have data to send.
    pub fn new(count: u8, faults: Faults, seed: u64) -> Self {
        let config = Config::new(count, 0);
        let mut cluster = Self {
            now: Instant::ZERO,
            elements: vec![None; count.into()],
            wants: vec![true; count.into()],
            inbox: BinaryHeap::new(),
            serial: 0,
            rng: Rng::new(seed),
            faults,
            config,
            watch: Watch::default(),
            lives: 0,
        };
        cluster.watch.had = vec![Duration::ZERO; count.into()];
        for nth in 0..count {
            cluster.start(nth);
        }
        cluster
    }

    /// Starts element `nth`, also after it failed.
    pub fn start(&mut self, nth: u8) {
        self.lives += 1;
        let config = Config {
            me: nth,
            ..self.config
        };
        let mut element = Element::new(self.now, config, self.lives << 32);
        element.handle_want(self.now, self.wants[usize::from(nth)]);
        self.elements[usize::from(nth)] = Some(element);
        self.deliver(usize::from(nth));
    }

    /// Makes element `nth` fail.
    pub fn kill(&mut self, nth: usize) {
        self.elements[nth] = None;
    }

    /// Sets whether element `nth` has data to send.
    pub fn want(&mut self, nth: usize, wants: bool) {
        self.wants[nth] = wants;
        if let Some(element) = &mut self.elements[nth] {
            element.handle_want(self.now, wants);
        }
        self.deliver(nth);
    }

    /// Returns the number of the element that holds the token.
    pub fn holder(&self) -> Option<usize> {
        let holds = |element: &Option<Element>| element.as_ref().is_some_and(Element::holds);
        self.elements.iter().position(holds)
    }

    /// Puts the messages of an element in flight.
    fn deliver(&mut self, nth: usize) {
        let Some(element) = &mut self.elements[nth] else {
            return;
        };
        while let Some(words) = element.poll_message() {
            self.watch.messages += 1;
            let mut chance = |thousandths| self.rng.next_u64() % 1000 < thousandths;
            if chance(self.faults.lost) {
                continue;
            }
            let copies = 1 + u64::from(chance(self.faults.doubled));
            for _ in 0..copies {
                let mut delay = 50_000 + self.rng.next_u64() % 50_000;
                if self.rng.next_u64() % 1000 < self.faults.late {
                    delay += self.rng.next_u64() % 400_000_000;
                }
                self.serial += 1;
                let at = self.now + Duration::from_nanos(delay);
                self.inbox.push(Reverse((at, self.serial, words.encode())));
            }
        }
    }

    fn next(&self) -> Instant {
        let inbox = self.inbox.peek().map_or(Instant::NEVER, |first| first.0.0);
        let slots = self.elements.iter().flatten().filter_map(Element::slot);
        let slots = slots.map(|slot| slot.till).filter(|till| *till > self.now);
        let elements = self.elements.iter().flatten().map(Element::poll_timeout);
        elements.chain(slots).fold(inbox, Instant::min)
    }

    /// Runs the cluster for `time`.
    pub fn run(&mut self, time: Duration) {
        let till = self.now + time;
        while self.now < till {
            let at = self.next().max(self.now).min(till);
            let slots = self
                .elements
                .iter()
                .map(|e| e.as_ref().and_then(Element::slot));
            let slots: Vec<Option<Slot>> = slots.collect();
            self.watch.look(self.now, at, &slots, self.holder());
            self.now = at;
            for nth in 0..self.elements.len() {
                if let Some(element) = &mut self.elements[nth] {
                    element.handle_timeout(at);
                }
                self.deliver(nth);
            }
            while self.inbox.peek().is_some_and(|first| first.0.0 <= at) {
                let Some(Reverse((_, _, octets))) = self.inbox.pop() else {
                    break;
                };
                let words =
                    ElementMessage::decode(&octets).expect("elements decode what they encode");
                let to = usize::from(words.to);
                if let Some(element) = &mut self.elements[to] {
                    element.handle_message(at, words);
                }
                self.deliver(to);
            }
        }
    }

    /// Returns the longest time without a token after a failure: until the loss is detected, until dead elements are
    /// known, and until all others have agreed.
    pub fn bound(&self) -> Duration {
        self.config.silence() + self.config.fresh + self.config.beat * 12
    }
}

impl Watch {
    /// Checks the state between two events, in which only slots end.
    fn look(
        &mut self,
        from: Instant,
        till: Instant,
        slots: &[Option<Slot>],
        holder: Option<usize>,
    ) {
        let passed = till.since(from);
        let mut users = 0;
        for (nth, slot) in slots.iter().enumerate() {
            if slot.is_some_and(|slot| slot.till > from) {
                self.had[nth] += passed;
                users += 1;
            }
        }
        self.shared = if users > 1 {
            self.shared + passed
        } else {
            Duration::ZERO
        };
        self.shared_max = self.shared_max.max(self.shared);
        self.empty = if users == 0 && holder.is_none() {
            self.empty + passed
        } else {
            Duration::ZERO
        };
        self.empty_max = self.empty_max.max(self.empty);
    }

    /// Resets the longest times.
    pub fn forget(&mut self) {
        self.empty_max = Duration::ZERO;
        self.empty = Duration::ZERO;
        self.had.fill(Duration::ZERO);
    }
}
