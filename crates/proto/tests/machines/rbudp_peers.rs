//! RBUDP machines against misbehaving peers: no message makes them panic, report falsely, or place a byte twice.

use std::time::Duration;

use lighthaul_base::{Body, Endpoint, Instant, Message, Rate, Span, Via};
use lighthaul_proto::rbudp::{
    Config, Framing, PeerMisbehaved, Receiver, ReceiverEvent, Sender, SenderEvent,
};

const CONFIG: Config = Config {
    framing: Framing {
        object_len: 10_000,
        packet_len: 1000,
        overhead_len: 28,
    },
    rate: Rate::UNLIMITED,
    burst: None,
    stream: 1,
    settle: Duration::from_millis(1),
    repeat: Duration::ZERO,
    feedback: None,
};
const NOW: Instant = Instant::ZERO;

fn datagram(round: u16, number: u64) -> [u8; 8] {
    (u64::from(round) << 48 | number).to_be_bytes()
}

fn packet(head: &[u8]) -> Message<'_> {
    Message {
        via: Via::Datagram,
        head,
        len: 1000,
    }
}

fn stream(head: &[u8]) -> Message<'_> {
    Message {
        via: Via::Stream(1),
        head,
        len: 0,
    }
}

fn done(round: u16, sent: u64) -> Vec<u8> {
    let mut head = vec![1];
    head.extend(round.to_be_bytes());
    head.extend(sent.to_be_bytes());
    head
}

/// Returns a sender that has sent its first blast and waits for a tally.
fn asking() -> Sender {
    let mut sender = Sender::new(NOW, CONFIG, 1);
    let sent = std::iter::from_fn(|| sender.poll_transmit(NOW)).count();
    assert_eq!(sent, 11);
    assert!(matches!(
        sender.poll_event(),
        Some(SenderEvent::Round {
            number: 1,
            packets: 10
        })
    ));
    let asked = Some(SenderEvent::Asked { round: 1 });
    assert_eq!(sender.poll_event(), asked);
    sender
}

#[test]
fn malformed_tally_fails_the_transfer() {
    for (head, why) in [
        (&[2, 0, 1, 0][..], PeerMisbehaved::TallyMalformed),
        (&[2, 0, 1, 0, 0xff], PeerMisbehaved::TallyMalformed),
        (&[2, 0, 1, 0, 0xff, 0xff], PeerMisbehaved::TallyMalformed),
        (&[2, 0, 1, 0, 0xff, 3, 0], PeerMisbehaved::TallyMalformed),
        (&[2, 0, 1, 1, 0, 11], PeerMisbehaved::TallyMalformed),
        (&[2, 0, 1], PeerMisbehaved::TallyMalformed),
        (&[2, 0, 2, 1], PeerMisbehaved::TallyOfRound(2)),
    ] {
        let mut sender = asking();
        assert_eq!(sender.handle_message(NOW, stream(head)), None);
        assert_eq!(
            sender.poll_event(),
            Some(SenderEvent::Failed(why)),
            "{head:?}"
        );
        assert_eq!(sender.poll_transmit(NOW), None);
        assert_eq!(sender.poll_timeout(), None);
    }
}

#[test]
fn unrequested_tally_fails_the_transfer() {
    let mut sender = Sender::new(NOW, CONFIG, 1);
    sender.poll_event();
    sender.handle_message(NOW, stream(&[2, 0, 1, 1]));
    let why = PeerMisbehaved::TallyOfRound(1);
    assert_eq!(sender.poll_event(), Some(SenderEvent::Failed(why)));
}

#[test]
fn shrinking_tally_fails_the_transfer() {
    let mut sender = asking();
    sender.handle_message(NOW, stream(&[2, 0, 1, 1, 5, 5]));
    assert_eq!(
        sender.poll_event(),
        Some(SenderEvent::Round {
            number: 2,
            packets: 5
        })
    );
    let numbers: Vec<_> = std::iter::from_fn(|| sender.poll_transmit(NOW))
        .filter_map(|transmit| match transmit.body {
            Body::Object(span) => Some((transmit.head.as_slice().to_vec(), span.offset / 1000)),
            Body::None | Body::Octets(_) => None,
        })
        .collect();
    let expected: Vec<_> = (5..10).map(|n| (datagram(2, n).to_vec(), n)).collect();
    assert_eq!(numbers, expected);
    assert_eq!(sender.poll_event(), Some(SenderEvent::Asked { round: 2 }));
    sender.handle_message(NOW, stream(&[2, 0, 2, 1, 4, 1]));
    let why = PeerMisbehaved::TallyShrank;
    assert_eq!(sender.poll_event(), Some(SenderEvent::Failed(why)));
}

#[test]
fn sender_ignores_foreign_messages() {
    let mut sender = asking();
    let done = done(1, 10);
    let datagram = datagram(1, 1);
    let foreign = [
        packet(&datagram),
        Message {
            via: Via::Stream(2),
            head: &[2, 0, 1, 1],
            len: 0,
        },
        Message {
            via: Via::Stream(1),
            head: &[2, 0, 1, 1],
            len: 7,
        },
        stream(&[]),
        stream(&[9]),
        stream(&done),
    ];
    for message in foreign {
        assert_eq!(sender.handle_message(NOW, message), None);
    }
    assert_eq!((sender.poll_event(), sender.ignored()), (None, 6));
}

#[test]
fn receiver_places_only_new_and_valid_packets() {
    let mut receiver = Receiver::new(NOW, CONFIG, 1);
    let mut hand = |head: &[u8], len| {
        receiver.handle_message(
            NOW,
            Message {
                via: Via::Datagram,
                head,
                len,
            },
        )
    };
    assert_eq!(hand(&datagram(1, 3), 1000), Some(Span::new(3000, 1000)));
    assert_eq!(hand(&datagram(1, 3), 1000), None, "a duplicate");
    for (head, len) in [
        (&datagram(1, 4)[..], 999),
        (&datagram(1, 4), 1001),
        (&datagram(1, 10), 1000),
        (&datagram(1, (1 << 48) - 1), 1000),
        (&datagram(0, 4), 1000),
        (&datagram(2, 4), 1000),
        (&datagram(1, 4)[..7], 1000),
        (&[], 0),
    ] {
        assert_eq!(hand(head, len), None, "{head:?} {len}");
    }
    assert_eq!(receiver.upcoming(4000, 1000), Some(Span::new(4000, 1000)));
    assert_eq!(
        (
            receiver.received(),
            receiver.arrivals().duplicates,
            receiver.arrivals().ignored
        ),
        (1, 1, 8)
    );
}

#[test]
fn receiver_answers_each_blast_once_and_in_time() {
    let mut receiver = Receiver::new(NOW, CONFIG, 1);
    for head in [done(2, 10), done(0, 10), vec![1]] {
        receiver.handle_message(NOW, stream(&head));
        assert_eq!(receiver.poll_transmit(NOW), None);
    }
    receiver.handle_message(NOW, stream(&done(1, 10)));
    assert_eq!(receiver.poll_transmit(NOW), None, "late datagrams may come");
    assert_eq!(receiver.poll_timeout().unwrap().at, NOW + CONFIG.settle);

    // a datagram every 900 us delays the tally, but not indefinitely
    let mut now = NOW;
    for number in 0..9 {
        now += Duration::from_micros(900);
        let head = &datagram(1, number);
        receiver.handle_message(now, packet(head));
        assert_eq!(receiver.poll_transmit(now), None);
    }
    now += CONFIG.settle;
    receiver.handle_timeout(now);
    assert!(receiver.poll_transmit(now).is_some());
    let tallied = ReceiverEvent::Tallied {
        round: 1,
        received: 9,
        missing: 1,
    };
    assert_eq!(receiver.poll_event(), Some(tallied));

    receiver.handle_message(now, stream(&done(1, 10)));
    assert_eq!(
        (receiver.poll_transmit(now), receiver.poll_timeout()),
        (None, None)
    );
    receiver.handle_message(now, stream(&done(2, 1)));
    let head = &datagram(2, 9);
    receiver.handle_message(now, packet(head));
    assert!(
        receiver.poll_transmit(now).is_some(),
        "a full tally need not wait"
    );
    receiver.poll_event();
    assert_eq!(receiver.poll_event(), Some(ReceiverEvent::Complete));
}
