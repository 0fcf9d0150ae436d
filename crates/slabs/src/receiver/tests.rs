//! Tests of the receiver of slabs, step by step.

use super::super::SessionId;
use super::super::config::EXAMPLE;
use super::*;

/// Pages of 44 packets of 10 bytes; losses settle within 2 ms and acknowledgments go out every 10 ms.
fn receiver() -> Receiver {
    Receiver::new(Config {
        packet_len: 10,
        pages_max: 16,
        ..EXAMPLE
    })
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

fn one(range: Range<u64>) -> Vec<Range<u64>> {
    core::iter::once(range).collect()
}

fn hear(receiver: &mut Receiver, micros: u64, turn: u64) {
    let head = Packet { turn, number: 0 }.encode();
    receiver.handle_datagram(at(micros), &head, 10, &mut |_| {});
}

/// Takes `len` bytes of packet `number`. Returns whether they have a place and complete a record.
fn place(receiver: &mut Receiver, number: u64, len: u32) -> (bool, bool) {
    let turn = receiver.turns;
    let (head, mut whole) = (Packet { turn, number }.encode(), false);
    let place = receiver.handle_datagram(Instant::ZERO, &head, len, &mut |_| whole = true);
    (place.is_some(), whole)
}

fn announce(receiver: &mut Receiver, len: u32) -> Result<(), PeerMisbehaved> {
    let record = Record {
        session: SessionId([0; 16]),
        offset: 0,
        len,
        crc: 0,
        end: None,
    };
    let (slab, first) = (receiver.next_slab, receiver.next_page);
    receiver.handle_slab(slab, first, [record].into(), &mut |_| {})
}

#[test]
fn datagrams_without_a_place_are_ignored() {
    let mut receiver = receiver();
    let none = &mut |_| {};
    assert_eq!(receiver.handle_datagram(at(0), &[0; 7], 10, none), None);
    assert_eq!((receiver.datagrams(), receiver.ignored()), (1, 1));
    for (number, len, has_place) in [
        (16 * PAGE_PACKETS, 10, false),
        (16 * PAGE_PACKETS - 1, 0, false),
        (16 * PAGE_PACKETS - 1, 11, false),
        (16 * PAGE_PACKETS - 1, 10, true),
        (16 * PAGE_PACKETS - 2, 1, true),
    ] {
        let ignored = receiver.ignored() + u64::from(!has_place);
        assert_eq!(place(&mut receiver, number, len), (has_place, false));
        assert_eq!(receiver.ignored(), ignored, "{len} bytes of {number}");
    }
    assert_eq!((receiver.datagrams(), receiver.duplicates()), (6, 0));
}

#[test]
fn packets_of_an_announced_page_have_their_lengths() {
    let mut receiver = receiver();
    assert_eq!(place(&mut receiver, 3, 10), (true, false));
    announce(&mut receiver, 25).unwrap();
    for (number, len, expected) in [
        (0, 9, (false, false)),
        (0, 10, (true, false)),
        (2, 10, (false, false)),
        (2, 5, (true, false)),
        (3, 10, (false, false)),
        (1, 10, (true, true)),
        (1, 10, (false, false)),
    ] {
        let placed = place(&mut receiver, number, len);
        assert_eq!(placed, expected, "{len} bytes of packet {number}");
    }
    assert_eq!((receiver.ignored(), receiver.duplicates()), (3, 1));
}

#[test]
fn record_in_custody_is_judged_once() {
    let mut receiver = receiver();
    announce(&mut receiver, 5).unwrap();
    assert_eq!(place(&mut receiver, 0, 5), (true, true));
    assert!(!receiver.judge(0, 0, false));
    assert_eq!(place(&mut receiver, 0, 5), (true, true));
    assert!(receiver.judge(0, 0, true));
    assert!(!receiver.judge(0, 0, true));
    assert_eq!((receiver.first_page(), receiver.open_slabs()), (1, 0));
}

#[test]
fn missing_page_stops_credit_at_four_times_the_memory() {
    let mut receiver = receiver();
    announce(&mut receiver, 10).unwrap();
    while announce(&mut receiver, 10).is_ok() {
        let page = receiver.next_page - 1;
        assert_eq!(place(&mut receiver, page * PAGE_PACKETS, 10), (true, true));
        assert!(receiver.judge(page, 0, true));
        receiver.free(1);
    }
    assert_eq!((receiver.next_page, receiver.poll_credit()), (64, Some(64)));
    assert_eq!(place(&mut receiver, 0, 10), (true, true));
    assert!(receiver.judge(0, 0, true));
    receiver.free(1);
    assert_eq!(
        (receiver.first_page(), receiver.poll_credit()),
        (64, Some(80))
    );
}

#[test]
fn credit_is_sent_in_sixteenths_of_the_memory() {
    let mut receiver = Receiver::new(Config {
        pages_max: 64,
        ..EXAMPLE
    });
    let mut told = Vec::new();
    for _ in 0..10 {
        told.push(receiver.poll_credit());
        receiver.free(1);
    }
    let due = |nth: u64| nth.is_multiple_of(4).then_some(64 + nth);
    assert_eq!(told, (0..10).map(due).collect::<Vec<_>>());
}

#[test]
fn arrivals_are_acknowledged_every_ten_milliseconds() {
    let mut receiver = receiver();
    assert_eq!(receiver.due(), None);
    hear(&mut receiver, 500, 0);
    hear(&mut receiver, 600, 1);
    assert_eq!(receiver.due(), Some(at(10_500)));
    assert_eq!(receiver.poll_report(at(10_499)), None);
    assert_eq!(receiver.poll_report(at(10_500)), Some((2, Vec::new())));
    assert_eq!(
        (receiver.poll_report(at(10_500)), receiver.due()),
        (None, None)
    );
    // an unchanged state is not reported
    hear(&mut receiver, 11_000, 1);
    assert_eq!(receiver.due(), Some(at(21_000)));
    assert_eq!(
        (receiver.poll_report(at(21_000)), receiver.due()),
        (None, None)
    );
}

#[test]
fn gap_is_a_loss_once_it_could_have_been_overtaken() {
    let mut receiver = receiver();
    hear(&mut receiver, 0, 0);
    hear(&mut receiver, 1000, 3);
    assert_eq!(receiver.due(), Some(at(3000)));
    assert_eq!(receiver.poll_report(at(2999)), None);
    let lost = Some((4, one(1..3)));
    assert_eq!(receiver.poll_report(at(3000)), lost);
    assert_eq!(receiver.poll_report(at(10_000)), None);
    // a packet that comes in time is not lost
    hear(&mut receiver, 20_000, 6);
    hear(&mut receiver, 21_999, 4);
    hear(&mut receiver, 21_999, 5);
    assert_eq!(receiver.poll_report(at(22_000)), None);
    assert_eq!(receiver.poll_report(at(30_000)), Some((7, Vec::new())));
    // packets before a loss are acknowledged without waiting for it
    hear(&mut receiver, 40_000, 7);
    hear(&mut receiver, 49_000, 9);
    assert_eq!(receiver.poll_report(at(50_000)), Some((8, Vec::new())));
    assert_eq!(receiver.poll_report(at(51_000)), Some((10, one(8..9))));
}

#[test]
fn losses_that_do_not_fit_one_report_are_in_the_next() {
    let mut receiver = receiver();
    (1..=1500).for_each(|nth| hear(&mut receiver, 0, 2 * nth));
    let lost = |from: u64, till: u64| (from..till).map(|nth| 2 * nth + 1..2 * nth + 2).collect();
    let mut first: Vec<Range<u64>> = one(0..2);
    let rest: Vec<_> = lost(1, 1024);
    first.extend(rest);
    assert_eq!(receiver.poll_report(at(2000)), Some((2049, first)));
    assert_eq!(receiver.due(), Some(at(2000)));
    assert_eq!(
        receiver.poll_report(at(2000)),
        Some((3001, lost(1024, 1500)))
    );
    assert_eq!(receiver.poll_report(at(2000)), None);
}

#[test]
fn losses_beyond_those_remembered_are_found_later() {
    let mut receiver = receiver();
    let turns = 2 * LOSSES_MAX as u64 + 10;
    (0..turns)
        .step_by(2)
        .for_each(|turn| hear(&mut receiver, 0, turn));
    let mut lost = Vec::new();
    while let Some((_, ranges)) = receiver.poll_report(at(2000)) {
        lost.extend(ranges.into_iter().flatten());
    }
    hear(&mut receiver, 3000, turns);
    while let Some((_, ranges)) = receiver.poll_report(at(5000)) {
        lost.extend(ranges.into_iter().flatten());
    }
    let first = (1..2 * LOSSES_MAX as u64).step_by(2);
    // the last few count as lost, since the list was full when they came
    assert!(lost.iter().copied().eq(first.chain(turns - 9..turns)));
}

#[test]
fn question_is_answered_at_once_or_after_the_wait_for_reordered_datagrams() {
    let mut receiver = receiver();
    receiver.handle_question(at(0), 5);
    assert_eq!(receiver.due(), Some(at(2000)));
    assert_eq!(receiver.poll_report(at(1999)), None);
    assert_eq!(receiver.poll_report(at(2000)), Some((5, one(0..5))));
    assert_eq!(receiver.due(), None);
    receiver.handle_question(at(3000), 5);
    assert_eq!(receiver.poll_report(at(3000)), None, "told already");
    hear(&mut receiver, 4000, 5);
    receiver.handle_question(at(4000), 6);
    assert_eq!(receiver.poll_report(at(4000)), Some((6, Vec::new())));
    // one that datagrams have overtaken
    hear(&mut receiver, 5000, 6);
    receiver.handle_question(at(5000), 6);
    assert_eq!(receiver.due(), Some(at(15_000)));
    // one that comes while something is missing
    hear(&mut receiver, 6000, 8);
    receiver.handle_question(at(7000), 9);
    assert_eq!(receiver.due(), Some(at(8000)));
    assert_eq!(receiver.poll_report(at(8000)), Some((9, one(7..8))));
    assert_eq!(receiver.due(), Some(at(9000)));
}

#[test]
fn question_waits_for_datagrams_on_their_way_and_not_for_ever() {
    let mut receiver = receiver();
    receiver.handle_question(at(0), 1000);
    for turn in 0..199 {
        hear(&mut receiver, 1000 + 1000 * turn, turn);
        let report = receiver.poll_report(at(1000 + 1000 * turn));
        assert!(report.is_none_or(|(_, lost)| lost.is_empty()));
    }
    hear(&mut receiver, 199_500, 199);
    assert!(
        receiver
            .question
            .is_some_and(|question| question.at == at(200_000))
    );
    let lost = Some((1000, one(200..1000)));
    assert_eq!(receiver.poll_report(at(200_000)), lost);
    // datagrams that it does not ask about put nothing off
    receiver.handle_question(at(300_000), 1001);
    hear(&mut receiver, 301_000, 1001);
    assert!(
        receiver
            .question
            .is_some_and(|question| question.at == at(302_000))
    );
    hear(&mut receiver, 301_500, 1000);
    assert!(
        receiver
            .question
            .is_some_and(|question| question.at == at(303_500))
    );
}
