//! Elements of a cluster in virtual time: never two at once for longer than a guard, and soon one again, whatever becomes of
//! messages and elements.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use lighthaul_base::{Instant, Rng};
use lighthaul_proto::slabs::token::{Config, Element, Slot, Words};
use proptest::prelude::*;

/// What becomes of messages, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    lost: u64,
    late: u64,
    doubled: u64,
}

/// Elements, the network between them, and who watches.
struct Cluster {
    now: Instant,
    elements: Vec<Option<Element>>,
    wants: Vec<bool>,
    inbox: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    serial: u64,
    rng: Rng,
    faults: Faults,
    config: Config,
    watch: Watch,
    lives: u64,
}

/// Checks what is promised, and counts.
#[derive(Default)]
struct Watch {
    /// The time each element had the channel.
    had: Vec<Duration>,
    /// The longest time in which several had it.
    shared_max: Duration,
    shared: Duration,
    /// The longest time in which nobody had the token.
    empty_max: Duration,
    empty: Duration,
    messages: u64,
}

impl Cluster {
    fn new(count: u8, faults: Faults, seed: u64) -> Self {
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

    fn start(&mut self, nth: u8) {
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

    fn kill(&mut self, nth: usize) {
        self.elements[nth] = None;
    }

    fn want(&mut self, nth: usize, wants: bool) {
        self.wants[nth] = wants;
        if let Some(element) = &mut self.elements[nth] {
            element.handle_want(self.now, wants);
        }
        self.deliver(nth);
    }

    fn holder(&self) -> Option<usize> {
        let holds = |element: &Option<Element>| element.as_ref().is_some_and(Element::holds);
        self.elements.iter().position(holds)
    }

    /// Puts what an element says on its way.
    fn deliver(&mut self, nth: usize) {
        let Some(element) = &mut self.elements[nth] else {
            return;
        };
        while let Some(words) = element.poll_words() {
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

    fn run(&mut self, time: Duration) {
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
                let words = Words::decode(&octets).unwrap();
                let to = usize::from(words.to);
                if let Some(element) = &mut self.elements[to] {
                    element.handle_words(at, words);
                }
                self.deliver(to);
            }
        }
    }

    /// The longest time without a token after a failure: until it is missed, until the dead are known to be, until all have agreed.
    fn bound(&self) -> Duration {
        self.config.silence() + self.config.fresh + self.config.beat * 12
    }
}

impl Watch {
    /// Between two moments nothing happens but that slots end.
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

    /// Begins to look for the longest times again.
    fn forget(&mut self) {
        self.empty_max = Duration::ZERO;
        self.empty = Duration::ZERO;
        self.had.fill(Duration::ZERO);
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn busy_elements_have_equal_shares_and_leave_nothing() {
    for count in 2..=8 {
        let mut cluster = Cluster::new(count, Faults::default(), 1);
        cluster.run(ms(500));
        cluster.watch.forget();
        cluster.run(ms(5000));
        let all: Duration = cluster.watch.had.iter().sum();
        assert!(all >= ms(4950), "{count}: {all:?} of 5 s");
        for had in &cluster.watch.had {
            let share = had.as_secs_f64() * f64::from(count) / all.as_secs_f64();
            assert!((0.97..1.03).contains(&share), "{count}: {share}");
        }
        assert!(cluster.watch.shared_max <= cluster.config.guard);
        let founded: u64 = cluster
            .elements
            .iter()
            .flatten()
            .map(|e| e.counts().1)
            .sum();
        assert_eq!(founded, 1);
    }
}

#[test]
fn who_has_nothing_to_send_costs_the_others_nothing() {
    let mut cluster = Cluster::new(4, Faults::default(), 1);
    cluster.want(1, false);
    cluster.want(3, false);
    cluster.run(ms(500));
    cluster.watch.forget();
    cluster.run(ms(2000));
    let had = &cluster.watch.had;
    assert_eq!((had[1], had[3]), (Duration::ZERO, Duration::ZERO));
    assert!(had[0] > ms(950) && had[2] > ms(950), "{had:?}");
}

#[test]
fn a_token_that_nobody_wants_rests_and_comes_when_it_is_wanted() {
    let mut cluster = Cluster::new(4, Faults::default(), 1);
    (0..4).for_each(|nth| cluster.want(nth, false));
    cluster.run(ms(500));
    let (before, at) = (cluster.watch.messages, cluster.holder().unwrap());
    cluster.run(ms(1000));
    assert_eq!(cluster.holder(), Some(at));
    let said = cluster.watch.messages - before;
    assert!(said <= 4 * 3 * 201, "{said} messages in a second");
    let other = (at + 2) % 4;
    cluster.want(other, true);
    cluster.run(ms(2));
    assert_eq!(cluster.holder(), Some(other));
    assert!(cluster.elements[other].as_ref().unwrap().slot().is_some());
}

#[test]
fn the_others_go_on_when_a_holder_dies_and_it_comes_back() {
    for count in 2..=8 {
        let mut cluster = Cluster::new(count, Faults::default(), u64::from(count));
        cluster.run(ms(703));
        let dead = cluster.holder().unwrap();
        cluster.kill(dead);
        cluster.watch.forget();
        cluster.run(ms(1000));
        assert!(cluster.watch.empty_max <= cluster.bound());
        let founded: u64 = cluster
            .elements
            .iter()
            .flatten()
            .map(|e| e.counts().1)
            .sum();
        assert!(founded <= 2, "one at the start and one now: {founded}");
        cluster.watch.forget();
        cluster.start(dead as u8);
        cluster.run(ms(2000));
        assert!(
            cluster.watch.empty_max < ms(1),
            "who comes back disturbs nobody"
        );
        let share = cluster.watch.had[dead].as_secs_f64() * f64::from(count) / 2.0;
        assert!(share > 0.9, "who comes back has its share: {share}");
        assert!(cluster.watch.shared_max <= cluster.config.guard);
    }
}

#[test]
fn two_parts_that_meet_again_have_one_token() {
    let mut cluster = Cluster::new(
        4,
        Faults {
            lost: 1000,
            ..Faults::default()
        },
        1,
    );
    cluster.run(ms(500));
    let holds = |cluster: &Cluster| {
        cluster
            .elements
            .iter()
            .flatten()
            .filter(|e| e.holds())
            .count()
    };
    assert_eq!(holds(&cluster), 4, "who hears nobody is alone");
    cluster.faults.lost = 0;
    cluster.run(ms(20));
    cluster.watch.shared_max = Duration::ZERO;
    cluster.watch.shared = Duration::ZERO;
    cluster.run(ms(2000));
    assert!(cluster.watch.shared_max <= cluster.config.guard);
    assert!(holds(&cluster) <= 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_happens_one_has_the_channel(
        count in 2_u8..=8,
        seed: u64,
        lost in 0_u64..=80,
        late in 0_u64..=40,
        doubled in 0_u64..=100,
        story in prop::collection::vec((0_u8..8, 0_u8..4, 1_u64..700), 1..16),
    ) {
        let mut cluster = Cluster::new(count, Faults { lost, late, doubled }, seed);
        cluster.run(ms(400));
        for (nth, deed, wait) in story {
            let nth = usize::from(nth % count);
            let living = cluster.elements.iter().flatten().count();
            let mut failures = 1;
            match deed {
                0 if living > 1 && cluster.elements[nth].is_some() => cluster.kill(nth),
                1 => match cluster.holder() {
                    Some(holder) if living > 1 => cluster.kill(holder),
                    _ => {}
                },
                2 if cluster.elements[nth].is_none() => cluster.start(nth as u8),
                _ => {
                    let wants = !cluster.wants[nth];
                    cluster.want(nth, wants);
                    failures = 0;
                }
            }
            cluster.run(ms(wait));
            // lost messages may make one failure several
            let bound = cluster.bound() * (failures + 2);
            prop_assert!(cluster.watch.empty_max <= bound, "nobody had it for {:?}", cluster.watch.empty_max);
            prop_assert!(
                cluster.watch.shared_max <= cluster.config.guard,
                "two had it for {:?}", cluster.watch.shared_max
            );
        }
    }
}
