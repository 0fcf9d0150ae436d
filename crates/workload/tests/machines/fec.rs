//! Message-stream machines in virtual time: each message arrives once and soon, and most lost messages are restored.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Message, Rate};
use lighthaul_proto::fec::{Code, Config, Late, Receiver, ReceiverEvent, Sender, SenderEvent};
use lighthaul_sim::{BurstLoss, FlowEvent, PathConfig, Reorder, Simulation};
use lighthaul_workload::feed::Feed;
use proptest::prelude::*;

use crate::path::gigabit;

const MESSAGE_LEN: u32 = 200;

fn config(code: Code) -> Config {
    Config {
        message_len: MESSAGE_LEN,
        code,
        blocks: 1024,
        linger: Duration::from_millis(2),
        deadline: None,
        late: Late::Deliver,
        overhead_len: 52,
        rate: Rate::from_mbps(100),
        stream: 1,
        settle: Duration::from_millis(20),
        ahead_nanos: 0,
    }
}

fn path(delay: Duration, loss_ppb: u64) -> PathConfig {
    let mut path = gigabit(delay);
    path.there.loss_ppb = loss_ppb;
    path.overhead_len = 52;
    path
}

/// Outcome of a run: the age of each message, and whether it was restored.
struct Outcome {
    ages: BTreeMap<(u64, u8), (Duration, bool)>,
    world: Simulation<Feed, Receiver>,
}

impl Outcome {
    /// Returns the lost messages per million offered.
    fn lost_ppm(&self) -> u64 {
        let offered = self.world.left().sender().offered();
        (offered - self.ages.len() as u64) * 1_000_000 / offered
    }

    /// Returns the age that `of_a_thousand` of 1000 messages did not exceed.
    fn age(&self, of_a_thousand: usize) -> Duration {
        let mut ages: Vec<_> = self.ages.values().map(|(age, _)| *age).collect();
        ages.sort();
        ages[(ages.len() - 1) * of_a_thousand / 1000]
    }
}

fn run(config: Config, every: Duration, messages: u64, path: &PathConfig, seed: u64) -> Outcome {
    let feed = Feed::new(config, every, messages, 1..=MESSAGE_LEN);
    let receiver = Receiver::new(Instant::ZERO, config, seed);
    let mut world = Simulation::new(feed, receiver, path, seed);
    let (mut ages, mut ends) = (BTreeMap::new(), 0);
    world.run(
        Instant::from_nanos(u64::MAX / 2),
        |now, heard| match heard {
            FlowEvent::Right(ReceiverEvent::Message(arrived)) => {
                let key = (arrived.block, arrived.symbol);
                let known = ages.insert(key, (now.since(arrived.since), arrived.repaired));
                assert!(known.is_none(), "seed {seed}: {key:?} was delivered twice");
                assert_eq!(ends, 0, "no message may follow the end");
            }
            FlowEvent::Right(ReceiverEvent::Complete) => ends += 1,
            FlowEvent::Right(ReceiverEvent::Repair(_)) | FlowEvent::Left(_) => {}
        },
    );
    assert_eq!(ends, 1, "seed {seed}: it always ends, once");
    Outcome { ages, world }
}

#[test]
fn xor_of_3_hides_1_percent_loss_without_a_round_trip() {
    let delay = Duration::from_millis(50);
    for every in [500, 5_000].map(Duration::from_micros) {
        let config = config(Code::Xor(3));
        let outcome = run(config, every, 200_000, &path(delay, 10_000_000), 7);
        let lost = outcome.lost_ppm();
        assert!(lost < 1_000, "{lost} ppm lost at a message every {every:?}");
        let (median, p99) = (outcome.age(500), outcome.age(990));
        assert!(median < delay + Duration::from_millis(1), "{median:?}");
        assert!(p99 < delay + Duration::from_millis(5), "{p99:?}");
        let repaired = outcome.world.right().counts().repaired;
        assert!(
            (1_700..2_300).contains(&repaired),
            "{repaired} of about 2000"
        );
    }
}

#[test]
fn repair_symbol_follows_lone_message_after_linger() {
    // only a second datagram can deliver it
    let mut path = path(Duration::from_millis(50), 0);
    path.there.loss_ppb = 300_000_000;
    let outcome = run(
        config(Code::Xor(3)),
        Duration::from_secs(1),
        2_000,
        &path,
        3,
    );
    let restored: Vec<_> = outcome
        .ages
        .values()
        .filter(|(_, repaired)| *repaired)
        .collect();
    assert!(restored.len() > 300, "{}", restored.len());
    for (age, _) in restored {
        let after = age.saturating_sub(Duration::from_millis(50));
        assert!(after < Duration::from_micros(2_100), "{after:?}");
    }
}

#[test]
fn reed_solomon_repairs_loss_that_xor_cannot_repair() {
    let delay = Duration::from_millis(50);
    let mut bad = path(delay, 0);
    bad.there.burst = Some(BurstLoss {
        enter_ppb: 3_000_000,
        len_mean: 3,
    });
    let every = Duration::from_micros(100);
    let [none, xor, strong] = [Code::None, Code::Xor(3), Code::ReedSolomon(16, 12)]
        .map(|code| run(config(code), every, 100_000, &bad, 5).lost_ppm());
    assert!((7_000..11_000).contains(&none), "{none}");
    assert!(xor < none && strong * 5 < xor, "{none} {xor} {strong}");
}

#[test]
fn late_messages_are_marked_or_dropped_as_configured() {
    // a slow line in front of the receiver, whose queue delays the messages
    let mut slow = path(Duration::from_millis(10), 0);
    slow.there.rate = Some(Rate::from_mbps(1));
    let every = Duration::from_millis(1);
    let with = |late| {
        let config = Config {
            deadline: Some(Duration::from_millis(50)),
            late,
            // the end message does not wait in that queue
            settle: Duration::from_secs(2),
            ..config(Code::None)
        };
        run(config, every, 1_000, &slow, 1)
    };
    let told = with(Late::Deliver);
    assert_eq!(told.ages.len(), 1_000);
    let late = told
        .ages
        .values()
        .filter(|(age, _)| *age > Duration::from_millis(50))
        .count();
    assert!(late > 0);
    assert_eq!(told.world.right().counts().late, late as u64);
    let dropped = with(Late::Drop);
    assert_eq!(dropped.ages.len(), 1_000 - late);
    assert!(dropped.age(1000) <= Duration::from_millis(50));
}

#[test]
fn sender_drops_late_messages_and_refuses_messages_beyond_its_ring() {
    let config = Config {
        blocks: 8,
        deadline: Some(Duration::from_millis(50)),
        late: Late::Drop,
        rate: Rate::from_bps(100_000).unwrap(),
        ..config(Code::Xor(3))
    };
    let mut sender = Sender::new(Instant::ZERO, config, 1);
    let taken = (0..100)
        .map_while(|_| sender.offer(Instant::ZERO, 100))
        .count();
    assert_eq!(taken, 21, "all blocks but one");
    while sender.poll_transmit(Instant::ZERO).is_some() {}
    let sent = taken - usize::try_from(sender.dropped()).unwrap();
    assert_eq!(sender.dropped(), 0);
    let now = Instant::ZERO + Duration::from_millis(60);
    assert_eq!(sender.poll_transmit(now), None, "all that waited are late");
    assert!(sender.dropped() > 0 && sent == taken);
    assert_eq!(sender.poll_event(), Some(SenderEvent::Room));
    assert!(sender.offer(now, 100).is_some());
}

#[test]
fn clock_offset_is_compensated() {
    let ahead = Duration::from_hours(2);
    let behind = Duration::from_millis(30);
    for ahead_nanos in [i64::try_from(ahead.as_nanos()).unwrap(), -30_000_000] {
        let config = Config {
            ahead_nanos,
            deadline: Some(Duration::from_millis(20)),
            ..config(Code::Xor(3))
        };
        let sent = Instant::ZERO + behind * 2;
        let mut sender = Sender::new(sent, config, 1);
        sender.offer(sent, 10);
        let transmit = sender.poll_transmit(sent).unwrap();
        let mut receiver = Receiver::new(Instant::ZERO, config, 1);
        let there = sent + Duration::from_millis(10);
        let here = if ahead_nanos > 0 {
            there + ahead
        } else {
            there - behind
        };
        let message = Message {
            via: transmit.via,
            head: transmit.head.as_slice(),
            len: 10,
        };
        assert!(receiver.handle_message(here, message).is_some());
        let Some(ReceiverEvent::Message(arrived)) = receiver.poll_event() else {
            panic!()
        };
        assert_eq!(here.since(arrived.since), Duration::from_millis(10));
        assert!(!arrived.late);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any loss, reordering and duplication: no message is duplicated or invented, and the stream ends.
    #[test]
    fn every_message_arrives_at_most_once_on_any_path(
        seed: u64,
        code in prop_oneof![
            Just(Code::None), (1_u8..5).prop_map(Code::Xor),
            (1_u8..12, 1_u8..5).prop_map(|(k, m)| Code::ReedSolomon(k, m)),
        ],
        every_us in 0_u64..3_000,
        messages in 1_u64..600,
        blocks in 2_u16..40,
        loss_ppb in 0_u64..400_000_000,
        late_ppb in 0_u64..300_000_000,
        duplicate_ppb in 0_u64..300_000_000,
    ) {
        let mut path = path(Duration::from_millis(3), loss_ppb);
        path.there.reorder = Some(Reorder { ppb: late_ppb, extra: Duration::from_millis(4) });
        path.there.duplicate_ppb = duplicate_ppb;
        let config = Config { blocks, ..config(code) };
        let outcome = run(config, Duration::from_micros(every_us), messages, &path, seed);
        let counts = outcome.world.right().counts();
        prop_assert_eq!(outcome.world.left().sender().offered(), messages);
        prop_assert_eq!(counts.received, outcome.ages.len() as u64);
        prop_assert!(counts.received <= messages);
        prop_assert_eq!(counts.ignored, 0);
        if loss_ppb == 0 && late_ppb == 0 {
            prop_assert_eq!((counts.received, counts.repaired), (messages, 0));
        }
    }
}
