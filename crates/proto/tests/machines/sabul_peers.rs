//! SABUL machines against misbehaving peers: no message makes them panic, report falsely, or place a byte twice.
#![expect(clippy::single_range_in_vec_init, reason = "lists of one range")]

use std::ops::Range;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Message, Rate, Span, Via};
use lighthaul_proto::sabul::wire::{Ack, Clock, Control, Packet};
use lighthaul_proto::sabul::{
    Config, Framing, Memory, Mode, PeerMisbehaved, Receiver, ReceiverEvent, Sender, SenderEvent,
};

const NOW: Instant = Instant::ZERO;
const RTT: Duration = Duration::from_millis(100);
const CONFIG: Config = Config {
    framing: Framing {
        object_len: 20_000,
        packet_len: 1000,
        overhead_len: 28,
    },
    mode: Mode::Paper,
    memory: Memory::new(Rate::UNLIMITED, RTT),
    rate_max: Rate::UNLIMITED,
    burst: None,
    stream: 1,
    window_max: 100,
    ranges_max: 3,
};

fn hear<E: Endpoint>(machine: &mut E, now: Instant, control: &Control) {
    let head = control.transmit(1).octets();
    let message = Message {
        via: Via::Stream(1),
        head: &head,
        len: 0,
    };
    assert_eq!(machine.handle_message(now, message), None);
}

fn place(receiver: &mut Receiver, now: Instant, number: u32, len: u32) -> Option<Span> {
    let clock = Clock::at(now);
    let packet = Packet {
        again: 0,
        number,
        clock,
    };
    let message = Message {
        via: Via::Datagram,
        head: &packet.encode(),
        len,
    };
    receiver.handle_message(now, message)
}

fn nak(ranges: &[Range<u64>]) -> Control {
    Control::Nak {
        again: false,
        ranges: ranges.to_vec(),
    }
}

fn ack(till: u32, received: u32) -> Control {
    Control::Ack(Ack {
        till,
        received,
        ..Ack::default()
    })
}

/// Returns the messages that a machine sends on its stream now.
fn said<E: Endpoint>(machine: &mut E, now: Instant) -> Vec<Control> {
    std::iter::from_fn(|| machine.poll_transmit(now))
        .filter(|transmit| transmit.via == Via::Stream(1))
        .map(|transmit| Control::decode(&transmit.octets()).expect("what is said makes sense"))
        .collect()
}

/// Returns a sender that has sent all packets.
fn spent() -> Sender {
    let mut sender = Sender::new(NOW, CONFIG, 1);
    assert_eq!(said(&mut sender, NOW), [Control::Sent(20)]);
    assert_eq!(sender.poll_event(), Some(SenderEvent::Passed));
    sender
}

#[test]
fn protocol_violation_fails_the_transfer() {
    for (first, second, why) in [
        (ack(0, 0), ack(21, 21), PeerMisbehaved::AckBeyond(21)),
        (ack(0, 0), ack(1, 21), PeerMisbehaved::AckBeyond(21)),
        (ack(5, 5), ack(4, 5), PeerMisbehaved::AckShrank),
        (ack(5, 7), ack(5, 6), PeerMisbehaved::AckShrank),
        (ack(0, 0), ack(5, 4), PeerMisbehaved::AckShrank),
        (ack(0, 0), nak(&[19..21]), PeerMisbehaved::NakBeyond(20)),
        (
            ack(0, 0),
            nak(&[1..2, 1000..1001]),
            PeerMisbehaved::NakBeyond(1000),
        ),
    ] {
        let mut sender = spent();
        hear(&mut sender, NOW, &first);
        assert_eq!(sender.poll_event(), None);
        hear(&mut sender, NOW, &second);
        assert_eq!(
            sender.poll_event(),
            Some(SenderEvent::Failed(why)),
            "{second:?}"
        );
        assert_eq!(
            (sender.poll_transmit(NOW), sender.poll_timeout()),
            (None, None)
        );
    }
}

#[test]
fn nak_of_unsent_packet_causes_no_retransmission() {
    let slow = Config {
        memory: Memory::new(Rate::from_mbps(1), RTT),
        ..CONFIG
    };
    let mut sender = Sender::new(NOW, slow, 1);
    while sender.poll_transmit(NOW).is_some() {}
    assert_eq!(sender.sent(), 1, "the flow window has one packet");
    hear(&mut sender, NOW, &nak(&[1..3]));
    let why = PeerMisbehaved::NakBeyond(2);
    assert_eq!(sender.poll_event(), Some(SenderEvent::Failed(why)));
}

#[test]
fn losses_are_resent_in_order_with_unique_numbers() {
    let mut sender = spent();
    // the list accepts no more ranges than fit, and packets that arrived meanwhile are not resent
    hear(&mut sender, NOW, &nak(&[1..3, 5..6, 7..8, 9..10]));
    hear(&mut sender, NOW, &ack(2, 15));
    let heads: Vec<_> = std::iter::from_fn(|| sender.poll_transmit(NOW))
        .map(|transmit| Packet::decode(transmit.head.as_slice()).expect("a datagram"))
        .map(|packet| (packet.again, packet.number))
        .collect();
    assert_eq!(heads, [(1, 2), (2, 5), (3, 7)]);
    assert_eq!((sender.sent(), sender.resent()), (23, 3));
    hear(&mut sender, NOW, &ack(20, 20));
    assert_eq!(sender.poll_event(), Some(SenderEvent::Complete));
}

#[test]
fn sender_ignores_foreign_messages() {
    let mut sender = spent();
    let ack = ack(1, 1).transmit(1).octets();
    for (via, head, len) in [
        (Via::Datagram, &ack[..], 0),
        (Via::Stream(2), &ack, 0),
        (Via::Stream(1), &ack, 7),
        (Via::Stream(1), &[], 0),
        (Via::Stream(1), &[9], 0),
        (Via::Stream(1), &[1, 0, 0, 0, 1], 0),
    ] {
        assert_eq!(sender.handle_message(NOW, Message { via, head, len }), None);
    }
    assert_eq!((sender.poll_event(), sender.ignored()), (None, 6));
}

#[test]
fn receiver_places_only_new_and_valid_packets() {
    let mut receiver = Receiver::new(NOW, CONFIG, 1);
    assert_eq!(
        place(&mut receiver, NOW, 3, 1000),
        Some(Span::new(3000, 1000))
    );
    for (number, len) in [(3, 1000), (4, 999), (4, 1001), (20, 1000), (u32::MAX, 1000)] {
        assert_eq!(
            place(&mut receiver, NOW, number, len),
            None,
            "{number} {len}"
        );
    }
    assert_eq!(receiver.upcoming(0, 9000), Some(Span::new(0, 3000)));
    assert_eq!(receiver.upcoming(3000, 2000), Some(Span::new(4000, 2000)));
    assert_eq!(
        (
            receiver.received(),
            receiver.arrivals().duplicates,
            receiver.arrivals().ignored
        ),
        (1, 1, 4)
    );
}

#[test]
fn loss_is_reported_at_once_and_after_2_3_and_4_round_trips() {
    let mut receiver = Receiver::new(NOW, CONFIG, 1);
    place(&mut receiver, NOW, 0, 1000);
    place(&mut receiver, NOW, 4, 1000);
    let told = said(&mut receiver, NOW);
    assert_eq!(told[0], nak(&[1..4]));
    assert!(matches!(
        told[1],
        Control::Ack(Ack {
            till: 1,
            received: 2,
            ..
        })
    ));
    let mut due = Vec::new();
    for _ in 0..3 {
        let at = receiver.poll_timeout().expect("it will report again").at;
        receiver.handle_timeout(at);
        let again = Control::Nak {
            again: true,
            ranges: vec![1..4],
        };
        assert_eq!(said(&mut receiver, at), [again]);
        due.push(at.as_nanos() / 1_000_000);
    }
    assert_eq!(due, [200, 500, 900]);
    // received packets are not requested again
    place(&mut receiver, NOW + RTT * 10, 2, 1000);
    let at = NOW + RTT * 14;
    assert!(said(&mut receiver, at).contains(&Control::Nak {
        again: true,
        ranges: vec![1..2, 3..4],
    }));
}

#[test]
fn full_loss_list_refuses_packets_that_need_a_new_range() {
    let mut receiver = Receiver::new(NOW, CONFIG, 1);
    for number in [1, 3, 5] {
        assert!(place(&mut receiver, NOW, number, 1000).is_some());
    }
    assert_eq!(place(&mut receiver, NOW, 7, 1000), None, "a fourth range");
    assert_eq!(
        (receiver.arrivals().ignored, receiver.losses().len()),
        (1, 3)
    );
    assert!(
        place(&mut receiver, NOW, 6, 1000).is_some(),
        "the next in order"
    );
    assert!(
        place(&mut receiver, NOW, 0, 1000).is_some(),
        "a range closes"
    );
    said(&mut receiver, NOW);
}

#[test]
fn progress_report_reveals_loss_of_last_packets() {
    let mut receiver = Receiver::new(NOW, CONFIG, 1);
    for number in 0..18 {
        place(&mut receiver, NOW, number, 1000);
    }
    said(&mut receiver, NOW);
    hear(&mut receiver, NOW, &Control::Sent(20));
    assert_eq!(said(&mut receiver, NOW), [], "late datagrams may come");
    let at = receiver.poll_timeout().expect("it waits").at;
    assert_eq!(at, NOW + RTT / 2);
    receiver.handle_timeout(at);
    assert_eq!(said(&mut receiver, at), [nak(&[18..20])]);
    hear(&mut receiver, at, &Control::Sent(21));
    let why = PeerMisbehaved::SentBeyond(21);
    assert_eq!(receiver.poll_event(), Some(ReceiverEvent::Failed(why)));
    assert_eq!(
        (receiver.poll_transmit(at), receiver.poll_timeout()),
        (None, None)
    );
}
