//! Two gateways in virtual time: every byte of every session arrives once and in order, at the rate of the channel.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lighthaul_base::{Body, Endpoint, Instant, Message, Rate, Transmit, Trc, Via};
use lighthaul_sim::{FlowEvent, LinkConfig, PathConfig, Simulation};
use lighthaul_slabs::{Config, Link, SessionId};
use lighthaul_workload::station::{Program, Station, StationEvent};
use proptest::prelude::*;

use crate::path::{any_path, gigabit};

const CONFIG: Config = Config {
    packet_len: 1408,
    overhead_len: 52,
    stream: 2,
    burst: None,
    settle: Duration::from_millis(2),
    ack_every: Duration::from_millis(10),
    patience: Duration::from_hours(1),
    slab_pages: 136,
    age: Duration::from_millis(1),
    pages_max: 4096,
    window: 64 << 20,
};
const MEMORY: u64 = 256 << 20;
const FAST: Rate = Rate::from_mbps(10_000);

fn station(config: Config, rate: Rate, programs: Vec<Program>) -> Station {
    let link = Link::new(Instant::ZERO, config, Some(Trc::steady(rate)));
    Station::new(link, programs, MEMORY)
}

/// Returns a channel in both directions, whose queue holds the bursts of its own pacing.
fn channel(delay: Duration, loss_ppb: u64) -> PathConfig {
    let there = LinkConfig {
        loss_ppb,
        ..gigabit(delay).there
    };
    PathConfig {
        there,
        back: there,
        stream_delay: delay,
        overhead_len: 52,
        ..PathConfig::default()
    }
}

/// Times at which each session ended, and at which each made progress.
struct Story {
    ended: BTreeMap<SessionId, Instant>,
    reached: Vec<(Instant, SessionId, u64)>,
    world: Simulation<Station, Station>,
}

fn tell(left: Station, right: Station, path: &PathConfig, till: Instant, seed: u64) -> Story {
    let mut world = Simulation::new(left, right, path, seed);
    let (mut ended, mut reached) = (BTreeMap::new(), Vec::new());
    world.run(till, |now, heard| match heard {
        FlowEvent::Left(told) | FlowEvent::Right(told) => match told {
            StationEvent::Reached(session, bytes) => reached.push((now, session, bytes)),
            StationEvent::Ended(session) => {
                assert!(ended.insert(session, now).is_none(), "a session ends once");
            }
            // a sufficiently bad path may look dead for a while
            StationEvent::DatagramsLost => {}
            StationEvent::Failed(why) => panic!("{why}"),
            StationEvent::Wrong(session) => {
                panic!("the data of {session} differs from what was sent")
            }
        },
    });
    Story {
        ended,
        reached,
        world,
    }
}

fn id(number: u8) -> SessionId {
    let mut name = [0; 16];
    name[15] = number;
    SessionId(name)
}

fn secs(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

#[test]
fn four_sessions_fill_and_share_a_long_channel() {
    for (loss_ppb, least) in [(0, 0.95), (100_000, 0.95), (10_000_000, 0.90)] {
        let rate = Rate::from_mbps(990);
        let bytes = 150 << 20;
        let programs = (1..=4).map(|number| Program::new(number, Instant::ZERO, bytes, FAST));
        let left = station(CONFIG, rate, programs.collect());
        let right = station(CONFIG, rate, Vec::new());
        let path = channel(Duration::from_micros(57_500), loss_ppb);
        let story = tell(left, right, &path, secs(60.0), 1);
        assert_eq!(story.ended.len(), 4);
        let last = story.ended.values().max().unwrap().as_secs_f64();
        let payload = 990e6 * 1408.0 / f64::from(CONFIG.wire_bytes(1408));
        let used = 4.0 * bytes as f64 * 8.0 / last / payload;
        assert!(used > least, "{used} of the channel at {loss_ppb} ppb");
        let first = story.ended.values().min().unwrap().as_secs_f64();
        assert!(first > 0.9 * last, "{first} and {last}");
        let sender = story.world.left().link.sender();
        let lost = story.world.there().counters().dropped_loss.packets;
        let resent = sender.resent();
        assert!(resent <= lost + lost / 50 + 50, "{resent} of {lost} lost");
    }
}

#[test]
fn total_datagram_loss_is_reported_within_3_seconds() {
    let rate = Rate::from_mbps(100);
    let program = Program::new(1, secs(1.0), 1 << 20, FAST);
    let left = station(CONFIG, rate, [program].into());
    let right = station(CONFIG, rate, Vec::new());
    let path = channel(Duration::from_millis(50), 1_000_000_000);
    let mut world = Simulation::new(left, right, &path, 1);
    let mut noticed = Vec::new();
    world.run(secs(10.0), |now, heard| match heard {
        FlowEvent::Left(StationEvent::DatagramsLost) => noticed.push(now),
        FlowEvent::Left(told) | FlowEvent::Right(told) => panic!("{told:?}"),
    });
    let [once] = noticed[..] else {
        panic!("it is noticed {} times", noticed.len());
    };
    assert!((secs(3.0)..secs(4.0)).contains(&once), "{once:?}");
}

#[test]
fn interactive_session_does_not_wait_for_slabs() {
    let bulk = Program::new(1, Instant::ZERO, 1 << 30, FAST);
    let keys = (2..=40).map(|number| {
        let start = secs(0.5 + f64::from(number) * 0.05);
        Program::new(number, start, 20, FAST)
    });
    let programs = std::iter::once(bulk).chain(keys).collect();
    let rate = Rate::from_mbps(950);
    let left = station(CONFIG, rate, programs);
    let right = station(CONFIG, rate, Vec::new());
    let delay = Duration::from_millis(50);
    let story = tell(left, right, &channel(delay, 0), secs(4.0), 1);
    for number in 2..=40 {
        let start = secs(0.5 + f64::from(number) * 0.05);
        let came = story.ended[&id(number)].since(start);
        assert!(
            came < delay + Duration::from_millis(5),
            "{number}: {came:?}"
        );
    }
}

#[test]
fn unread_session_blocks_no_other_session_and_uses_a_single_window() {
    let config = Config {
        window: 1 << 20,
        ..CONFIG
    };
    let programs = (1..=5).map(|number| Program::new(number, Instant::ZERO, 20 << 20, FAST));
    let rate = Rate::from_mbps(990);
    let left = station(config, rate, programs.collect());
    let right = station(config, rate, Vec::new()).deaf_to(&[3]);
    let story = tell(
        left,
        right,
        &channel(Duration::from_millis(5), 0),
        secs(30.0),
        1,
    );
    let ended: Vec<u8> = story.ended.keys().map(|session| session.0[15]).collect();
    assert_eq!(ended, [1, 2, 4, 5]);
    let held = story.world.right().held_max();
    assert!(held <= 6 << 20, "{held} bytes were held");
    let of_it = story
        .reached
        .iter()
        .filter(|(_, session, _)| *session == id(3));
    let most = of_it.map(|(_, _, bytes)| *bytes).max().unwrap();
    assert!(most <= 1 << 20, "{most} bytes were taken");
}

#[test]
fn sender_never_exceeds_the_receivers_memory() {
    let config = Config {
        pages_max: 32,
        ..CONFIG
    };
    let program = Program::new(1, Instant::ZERO, 30 << 20, FAST);
    let left = station(config, Rate::from_mbps(990), vec![program]);
    let right = station(config, Rate::from_mbps(990), Vec::new());
    let path = channel(Duration::from_millis(10), 1_000_000);
    let story = tell(left, right, &path, secs(60.0), 1);
    assert_eq!(story.ended.len(), 1);
    let most = 32 * u64::from(config.page_len());
    assert!(story.world.right().held_max() <= most);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_byte_of_every_session_arrives_once_on_any_path(
        path in any_path(),
        sizes in prop::collection::vec((0_u64..2_000_000, 1_u64..2_000, 0_u64..500), 1..6),
        (slab_pages, pages_max, age_us) in (1_u32..200, 16_u32..400, 0_u64..20_000),
        seed: u64,
    ) {
        let config = Config {
            slab_pages,
            pages_max,
            age: Duration::from_micros(age_us),
            ..CONFIG
        };
        let path = PathConfig { back: path.there, ..path };
        let program = |(number, (bytes, mbps, start)): (u8, &(u64, u64, u64))| {
            let start = Instant::ZERO + Duration::from_millis(*start);
            Program::new(number, start, *bytes, Rate::from_mbps(*mbps))
        };
        let here: Vec<Program> = (1..).zip(&sizes).map(program).collect();
        let there: Vec<Program> = (101..).zip(&sizes).map(program).collect();
        let left = station(config, Rate::from_mbps(500), here);
        let right = station(config, Rate::from_mbps(500), there);
        let story = tell(left, right, &path, secs(600.0), seed);
        prop_assert_eq!(story.ended.len(), 2 * sizes.len());
        for (number, (bytes, ..)) in (1..).zip(&sizes) {
            for session in [id(number), id(number + 100)] {
                let reached = story.reached.iter().filter(|(_, of, _)| *of == session);
                let most = reached.map(|(_, _, bytes)| *bytes).max().unwrap_or(0);
                prop_assert!(most <= *bytes);
            }
        }
        prop_assert!(story.world.left().is_done() && story.world.right().is_done());
        prop_assert_eq!(story.world.left().link.sessions(), 0);
        prop_assert_eq!(story.world.right().link.sessions(), 0);
    }

    #[test]
    fn sessions_continue_after_broken_connections(
        breaks in prop::collection::vec(1_u64..400_000, 0..12),
        sizes in prop::collection::vec(0_u64..3_000_000, 1..4),
        delay_us in 0_u64..20_000,
    ) {
        let program = |(number, bytes): (u8, &u64)| {
            Program::new(number, Instant::ZERO, *bytes, Rate::from_mbps(300))
        };
        let here: Vec<Program> = (1..).zip(&sizes).map(program).collect();
        let there: Vec<Program> = (101..).zip(&sizes).map(program).collect();
        let rate = Rate::from_mbps(200);
        let mut pair = Pair::new(
            [station(CONFIG, rate, here), station(CONFIG, rate, there)],
            Duration::from_micros(delay_us),
        );
        let mut at = Instant::ZERO;
        for pause in breaks {
            at += Duration::from_micros(pause);
            pair.run_till(at);
            pair.break_off();
        }
        pair.run_till(at + Duration::from_mins(1));
        prop_assert_eq!(pair.ended.len(), 2 * sizes.len());
        prop_assert!(pair.stations.iter().all(Station::is_done));
    }
}

/// Two stations and the messages in flight between them, which are lost with their connection.
struct Pair {
    stations: [Station; 2],
    delay: Duration,
    now: Instant,
    /// Time of arrival, receiver and message.
    flying: VecDeque<(Instant, usize, Transmit)>,
    ended: Vec<SessionId>,
}

impl Pair {
    fn new(stations: [Station; 2], delay: Duration) -> Self {
        Self {
            stations,
            delay,
            now: Instant::ZERO,
            flying: VecDeque::new(),
            ended: Vec::new(),
        }
    }

    fn run_till(&mut self, till: Instant) {
        loop {
            let due = |station: &Station| station.poll_timeout().map(|deadline| deadline.at);
            let timeouts = self.stations.iter().filter_map(due);
            let comes = self.flying.front().map(|(at, ..)| *at);
            let next = timeouts.chain(comes).min().unwrap_or(Instant::NEVER);
            let next = next.max(self.now);
            if next > till || self.stations.iter().all(Station::is_done) && comes.is_none() {
                self.now = till;
                return;
            }
            self.now = next;
            while let Some((_, to, transmit)) = self.flying.pop_front_if(|(at, ..)| *at <= next) {
                let head = transmit.octets();
                let len = transmit.body.object_len();
                let (via, head) = (transmit.via, head.as_slice());
                self.stations[to].handle_message(next, Message { via, head, len });
                self.drain(to);
            }
            for nth in 0..2 {
                self.stations[nth].handle_timeout(next);
                self.drain(nth);
            }
        }
    }

    fn drain(&mut self, nth: usize) {
        while let Some(transmit) = self.stations[nth].poll_transmit(self.now) {
            assert!(transmit.via != Via::Datagram || matches!(transmit.body, Body::Object(_)));
            let at = self.now + self.delay;
            self.flying.push_back((at, 1 - nth, transmit));
        }
        while let Some(told) = self.stations[nth].poll_event() {
            match told {
                StationEvent::Ended(session) => self.ended.push(session),
                StationEvent::Reached(..) => {}
                StationEvent::DatagramsLost => panic!("datagrams do pass"),
                StationEvent::Failed(why) => panic!("{why}"),
                StationEvent::Wrong(session) => {
                    panic!("the data of {session} differs from what was sent")
                }
            }
        }
    }

    /// Drops all messages in flight, and continues on a new connection.
    fn break_off(&mut self) {
        self.flying.clear();
        let heard = [0, 1].map(|nth| self.stations[nth].link.heard());
        for nth in 0..2 {
            let resumed = self.stations[nth].link.resume(self.now, heard[1 - nth]);
            assert_eq!(resumed, Ok(()));
            self.drain(nth);
        }
    }
}
