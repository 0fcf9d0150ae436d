//! VBTP machines in virtual time: every byte is placed once, and the circuit's rate is never exceeded.

use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Load, Message, Rate, Via};
use lighthaul_proto::vbtp::wire;
use lighthaul_proto::vbtp::{
    Config, Framing, PeerMisbehaved, Receiver, ReceiverEvent, Sender, SenderEvent,
};
use lighthaul_sim::{FlowEvent, PathConfig, Simulation};
use proptest::prelude::*;

use crate::object::any_object;
use crate::path::any_path;
use crate::vbtp_run::{FOUR_STEPS, RTT, Run, Watched, circuit, config, filling, millis, steps};

#[test]
fn four_step_vector_is_followed_at_any_loss() {
    let trc = steps(FOUR_STEPS);
    let config = filling(&trc, 10);
    for (loss_ppb, seed) in [(0, 1), (10_000_000, 2), (100_000_000, 3)] {
        let run = Run::new(config, &trc, loss_ppb, seed);
        run.assert_whole(&config);
        run.assert_policed(
            &trc,
            Rate::from_mbps(900).bytes_in(Duration::from_millis(1)),
        );
        // within a millisecond of a boundary the rate is that of its side, except for a train
        for bound in [500, 1000, 1500] {
            for from in [millis(bound - 2), millis(bound + 1)] {
                let till = from + Duration::from_millis(1);
                let (sent, carried) = (
                    run.world.left().sent_between(from, till),
                    trc.bytes_between(from, till),
                );
                let train = carried / 2 + 1500;
                assert!(
                    sent.abs_diff(carried) <= train,
                    "{from}: {sent} of {carried} bytes"
                );
            }
            for (from, till) in [(bound - 400, bound), (bound, bound + 400)] {
                let (from, till) = (millis(from), millis(till));
                let (sent, carried) = (
                    run.world.left().sent_between(from, till),
                    trc.bytes_between(from, till),
                );
                assert!(
                    sent.abs_diff(carried) < 120_000,
                    "{from}: {sent} of {carried} bytes"
                );
            }
        }
        let (left, right) = (&run.world.left().machine, &run.world.right().machine);
        let lost = run.world.there().counters().dropped_loss.packets;
        if loss_ppb == 0 {
            assert_eq!(
                (left.resent(), lost, right.arrivals().duplicates),
                (0, 0, 0)
            );
            // released at once: everything was sent at 2.75 s
            assert!(run.released() < millis(2751), "{}", run.released());
        }
        // no more is resent than was lost
        assert_eq!(left.resent(), lost);
    }
}

#[test]
fn gigabit_circuit_with_loss_needs_a_margin_of_3_percent() {
    let trc = steps("0s-10s 1Gb/s");
    let config = filling(&trc, 3);
    for seed in [1, 2, 3] {
        let run = Run::new(config, &trc, 10_000_000, seed);
        run.assert_whole(&config);
        assert!(run.received() < trc.end(), "{}", run.received());
        let sent: u64 = run
            .world
            .left()
            .sent
            .iter()
            .map(|(_, bytes)| u64::from(*bytes))
            .sum();
        let used = sent as f64 / trc.bytes_between(trc.start(), trc.end()) as f64;
        assert!(used > 0.95, "{used}");
    }
}

#[test]
fn remaining_packets_are_sent_on_the_stream_after_the_circuit() {
    for (loss_ppb, seed) in [(0, 1), (10_000_000, 2), (100_000_000, 3)] {
        let trc = steps("0s-1s 1Gb/s");
        let config = filling(&trc, 0);
        let run = Run::new(config, &trc, loss_ppb, seed);
        run.assert_whole(&config);
        assert_eq!(run.released(), trc.end());
        assert!(run.world.left().sent.iter().all(|(at, _)| *at < trc.end()));
        assert!(
            run.world
                .left()
                .pieces
                .iter()
                .all(|(at, _)| *at >= trc.end())
        );
        let bytes = u64::from(
            run.world
                .left()
                .pieces
                .iter()
                .map(|(_, bytes)| *bytes)
                .sum::<u32>(),
        );
        let most = config.framing.object_len / 1000 * (5 + loss_ppb / 900_000);
        assert!(bytes < most, "{bytes} bytes on the stream");
        // a round trip after the last datagram arrived, plus the time of the tail's bytes on the stream
        let tail = run.received().since(run.world.right().came);
        let line = Rate::from_mbps(1000).time_for(bytes);
        assert!(tail < RTT + Duration::from_millis(50) + line, "{tail:?}");
    }
}

#[test]
fn circuit_is_released_with_the_last_packet() {
    let config = filling(&steps("0s-1s 1Gb/s"), 0);
    for end in ["1060ms", "1h"] {
        let trc = steps(&format!("0s-{end} 1Gb/s"));
        let run = Run::new(config, &trc, 1_000_000, 1);
        run.assert_whole(&config);
        let (last, _) = *run.world.left().sent.last().unwrap();
        assert_eq!(run.released(), last);
        assert!(last < millis(1005), "{last}");
        // losses of the last round trip are repaired on the stream
        let (tail, resent) = {
            let sender = &run.world.left().machine;
            (sender.tail(), sender.resent())
        };
        assert!((1..resent).contains(&tail), "{tail} of {resent}");
        let tail = run.received().since(run.world.right().came);
        assert!(tail < RTT + Duration::from_millis(50), "{tail:?}");
    }
}

#[test]
fn sender_that_must_wait_has_released_the_circuit() {
    let config = config(1_000_000);
    let trc = steps("0s-1h 1Gb/s");
    let mut sender = Sender::new(Instant::ZERO, config, trc, 1);
    let mut now = Instant::ZERO;
    while sender.unsent() > 0 {
        if sender.poll_transmit(now).is_none() {
            now = sender.poll_timeout().unwrap().at;
        }
    }
    assert!(
        now < millis(1000),
        "{now:?}: the vector continues for an hour"
    );
    assert!(sender.is_on_circuit());
    let hold = wire::hold(1, true);
    let message = Message {
        via: Via::Stream(1),
        head: &hold.octets(),
        len: 0,
    };
    sender.handle_message(now, message);
    assert_eq!(sender.poll_transmit(now), None);
    assert!(!sender.is_on_circuit() && sender.is_held());
}

#[test]
fn small_objects_are_transferred() {
    for object_len in [0, 1, 1463, 1464, 1465] {
        for trc in ["0s-1s 100Mb/s", "2s-3s 100Mb/s", "0s-10us 100Mb/s"] {
            let config = config(object_len);
            let run = Run::new(config, &steps(trc), 0, 1);
            run.assert_whole(&config);
        }
    }
}

#[test]
fn gap_of_hours_is_waited_for() {
    let trc = steps("0s-100ms 100Mb/s, 9h-10h 100Mb/s");
    let config = config(5_000_000);
    let run = Run::new(config, &trc, 10_000_000, 1);
    run.assert_whole(&config);
    run.assert_policed(&trc, 12_500);
    let (morning, first) = (
        trc.steps()[1].from,
        run.world.left().sent_between(millis(0), millis(100)),
    );
    assert!(
        first.abs_diff(1_250_000) < 15_000,
        "{first} bytes before the gap"
    );
    assert!(run.received() > morning && run.received() < morning + Duration::from_secs(1));
}

#[test]
fn last_packets_do_not_wait_through_a_long_gap() {
    let trc = steps("0s-500ms 100Mb/s, 9h-10h 100Mb/s");
    let config = config(5_800_000);
    let run = Run::new(config, &trc, 50_000_000, 1);
    run.assert_whole(&config);
    assert!(run.received() < millis(800), "{}", run.received());
}

#[test]
fn expired_vector_sends_all_packets_on_the_stream() {
    let config = config(1_000_000);
    let trc = steps("0s-1s 1Gb/s");
    assert!(trc.check_ahead(millis(1000)).is_err());
    let sender = Sender::new(millis(1000), config, trc, 1);
    let receiver = Watched::new(Receiver::new(Instant::ZERO, config, 1));
    let run = Run::between(Watched::new(sender), receiver, &circuit(0), 1);
    run.assert_whole(&config);
    assert!(run.world.left().sent.is_empty());
}

#[test]
fn transfer_may_start_anywhere_in_the_vector() {
    let trc = steps("0s-1s 100Mb/s, 1s-2s 500Mb/s");
    let config = config(500_000_000);
    let mut sender = Sender::new(millis(1500), config, trc, 1);
    let mut sent = 0;
    let mut now = millis(1500);
    while now < millis(1600) {
        while sender.poll_transmit(now).is_some() {
            sent += 1500;
        }
        now = sender.poll_timeout().unwrap().at;
    }
    assert!(6_250_000_u64.abs_diff(sent) < 40_000, "{sent} bytes");
}

#[test]
fn outage_is_recovered_within_the_margin() {
    let trc = steps("0s-3s 500Mb/s");
    let config = filling(&trc, 20);
    let mut receiver = Watched::new(Receiver::new(Instant::ZERO, config, 1));
    receiver.deaf = millis(1000)..millis(1300);
    let sender = Watched::new(Sender::new(Instant::ZERO, config, trc.clone(), 1));
    let run = Run::between(sender, receiver, &circuit(1_000_000), 1);
    run.assert_whole(&config);
    run.assert_policed(&trc, 62_500);
    assert!(run.received() < trc.end(), "{}", run.received());
    // of the last 50 ms, and of the round trip before their report
    assert!(run.world.left().machine.tail() < 20);
}

#[test]
fn outage_at_the_end_is_repaired_on_the_stream() {
    let trc = steps("0s-1s 100Mb/s");
    let config = filling(&trc, 1);
    let mut receiver = Watched::new(Receiver::new(Instant::ZERO, config, 1));
    receiver.deaf = millis(800)..Instant::NEVER;
    let sender = Watched::new(Sender::new(Instant::ZERO, config, trc, 1));
    let run = Run::between(sender, receiver, &circuit(0), 1);
    run.assert_whole(&config);
    assert!(
        run.received() < millis(1000) + 2 * RTT,
        "{}",
        run.received()
    );
}

#[test]
fn small_window_limits_data_in_flight() {
    let trc = steps("0s-60s 1Gb/s");
    let config = Config {
        window: 1000,
        block: 100,
        losses_max: 3,
        ..config(10_000_000)
    };
    let run = Run::new(config, &trc, 20_000_000, 5);
    // the receiver ignores and counts packets outside its window
    run.assert_whole(&config);
    for (nth, (from, _)) in run.world.left().sent.iter().enumerate().step_by(500) {
        let sent = run.world.left().sent[nth..].iter();
        let flight = sent.take_while(|(at, _)| *at < *from + RTT).count();
        assert!(flight <= 2 * 1000, "{flight} packets under way");
    }
}

#[test]
fn full_backlog_stops_and_empty_backlog_resumes_the_sender() {
    let config = config(20_000_000);
    let sender = Watched::new(Sender::new(
        Instant::ZERO,
        config,
        steps("0s-10s 100Mb/s"),
        1,
    ));
    let receiver = Watched::new(Receiver::new(Instant::ZERO, config, 1));
    let mut world = Simulation::new(sender, receiver, &circuit(0), 1);
    let load = |backlog_bytes| Load {
        backlog_bytes,
        backlog_bytes_max: 100,
        ..Load::default()
    };
    world.run(millis(200), |_, _| ());
    world.handle_load(millis(200), load(51), |_, _| ());
    world.run(millis(300), |_, _| ());
    let sent = world.left().machine.sent();
    assert!(world.left().machine.is_held());
    world.run(millis(500), |_, _| ());
    assert_eq!(world.left().machine.sent(), sent);
    world.handle_load(millis(500), load(24), |_, _| ());
    world.run(millis(20_000), |_, _| ());
    assert_eq!(world.left().machine.missing(), 0);
}

#[test]
fn driver_without_circuit_gets_all_packets_on_the_stream() {
    let config = config(1_000_000);
    let sender = Watched::new(Sender::new(Instant::ZERO, config, steps("1h-2h 1Gb/s"), 1));
    let receiver = Watched::new(Receiver::new(Instant::ZERO, config, 1));
    let mut world = Simulation::new(sender, receiver, &circuit(0), 1).with_ledger();
    world.handle_rate(Instant::ZERO, Rate::from_mbps(1), |_, _| ());
    assert!(
        world.left().machine.is_on_circuit(),
        "no rate but the vector's counts"
    );
    world.handle_rate(Instant::ZERO, Rate::UNLIMITED, |_, _| ());
    let end = world.run(millis(60_000), |_, _| ());
    assert!(world.ledger().unwrap().is_whole(1_000_000) && end < millis(1000));
}

#[test]
fn same_seed_gives_same_events() {
    let trc = steps(FOUR_STEPS);
    let config = config(10_000_000);
    let story = |seed| {
        Run::new(config, &trc, 20_000_000, seed)
            .world
            .left()
            .sent
            .clone()
    };
    assert_eq!(story(7), story(7));
    assert_ne!(story(7), story(8));
}

/// Returns the sender's reaction to a report about packets that it has not sent, or a question that it has not asked.
fn answer(
    said: [u64; 3],
    packets: &[std::ops::Range<u64>],
    turns: &[std::ops::Range<u64>],
) -> Vec<SenderEvent> {
    let mut sender = Sender::new(Instant::ZERO, config(1_000_000), steps("0s-1s 1Gb/s"), 1);
    let now = millis(1);
    while sender.poll_transmit(now).is_some() {}
    assert!(sender.sent() > 10);
    let report = wire::report(1, said, packets.iter().cloned(), turns.iter().cloned());
    let head = report.octets();
    let message = Message {
        via: Via::Stream(1),
        head: &head,
        len: 0,
    };
    assert_eq!(sender.handle_message(now, message), None);
    assert!(sender.poll_transmit(now + RTT).is_none() || sender.is_on_circuit());
    std::iter::from_fn(|| sender.poll_event()).collect()
}

#[test]
fn report_on_unsent_packets_fails_the_transfer() {
    assert_eq!(answer([0, 5, 0], &[5..6, 8..9], &[]), []);
    for (said, packets, turns, why) in [
        ([0, 600, 0], 0..0, 0..0, PeerMisbehaved::UnsentPacket(600)),
        ([0, 0, 0], 5..600, 0..0, PeerMisbehaved::UnsentPacket(600)),
        ([0, 0, 1], 0..0, 0..0, PeerMisbehaved::UnsentTurn(1)),
        (
            [0, 0, 0],
            0..0,
            0..u64::MAX,
            PeerMisbehaved::UnsentTurn(u64::MAX),
        ),
        ([1, 0, 0], 0..0, 0..0, PeerMisbehaved::Unasked(1)),
    ] {
        let some = |range: std::ops::Range<u64>| {
            (!range.is_empty())
                .then_some(range)
                .into_iter()
                .collect::<Vec<_>>()
        };
        let events = answer(said, &some(packets), &some(turns));
        assert_eq!(events.last(), Some(&SenderEvent::Failed(why)), "{said:?}");
    }
}

#[test]
fn differing_object_lengths_fail() {
    let trc = steps("0s-1s 1Gb/s");
    for (left, right) in [(10_000, 20_000), (20_000, 10_000)] {
        let sender = Sender::new(Instant::ZERO, config(left), trc.clone(), 1);
        let receiver = Receiver::new(Instant::ZERO, config(right), 1);
        let mut world = Simulation::new(sender, receiver, &circuit(0), 1);
        let mut complete = false;
        let mut failed = false;
        world.run(millis(10_000), |_, event| {
            complete |= event == FlowEvent::Right(ReceiverEvent::Complete);
            failed |= matches!(
                event,
                FlowEvent::Right(ReceiverEvent::Failed(PeerMisbehaved::Beyond(_)))
            );
        });
        assert!(failed || left < right, "more than there is");
        assert!(!complete);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_byte_is_placed_once_on_any_path(
        (object_len, packet_len) in any_object(),
        parts in prop::collection::vec((0_u64..40, 1_u64..200, 1_u64..1_500), 1..5),
        path in any_path(),
        stream_us in 0_u64..60_000,
        bounds in (1_u32..60, 2_u32..40, 1_u32..30),
        settle_us in 0_u64..10_000,
        seed: u64,
    ) {
        let mut end = 0;
        let parts = parts.into_iter().map(|(gap, len, mbps)| {
            let from = end + gap;
            end = from + len;
            format!("{from}ms-{end}ms {mbps}Mb/s")
        });
        let trc = steps(&parts.collect::<Vec<_>>().join(","));
        let (block, times, losses_max) = bounds;
        let stream_delay = Duration::from_micros(stream_us);
        let config = Config {
            framing: Framing {
                packet_len,
                ..config(object_len).framing
            },
            block,
            window: block * times,
            losses_max,
            settle: Duration::from_micros(settle_us),
            rtt: path.there.delay + stream_delay,
            ..config(object_len)
        };
        let stream_rate = path.there.rate;
        let path = PathConfig { stream_delay, stream_rate, ..path };
        let run = Run::through(config, &trc, &path, seed);
        run.assert_whole(&config);
        let burst = trc.steps().iter().map(|step| step.rate.bytes_in(Duration::from_millis(1)));
        let datagram = u64::from(config.framing.wire_bytes(packet_len));
        run.assert_policed(&trc, burst.max().unwrap().max(2 * datagram));
        let (left, right) = (&run.world.left().machine, &run.world.right().machine);
        prop_assert_eq!(left.sent() + left.tail(), config.framing.packets() + left.resent());
        let carried = run.world.there().counters();
        prop_assert_eq!(left.sent(), carried.offered.packets);
        prop_assert_eq!(right.arrivals().datagrams + left.tail(), right.received() + right.arrivals().duplicates);
    }
}
