//! Tests of machines with authenticated peers that send wrong messages.

use std::time::Duration;

use lighthaul_base::{Instant, Rate, Span, Transmit};
use lighthaul_io::control::{Control, Frame, Stream};
use lighthaul_io::drive::run;
use lighthaul_io::error::Error;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_io::store::Store;
use lighthaul_parts::Tally;
use lighthaul_proto::rbudp::wire::{done, tally};
use lighthaul_proto::rbudp::{Receiver, Sender};
use lighthaul_proto::stripe::{self, Width};

use crate::pair::{CONNECTION, Patient, STREAM, config, connect, fails, lane, object, streams};

/// Encodes a machine's message as a frame of the stream.
fn frame(transmit: &Transmit) -> Frame {
    marked(CONNECTION, &transmit.octets())
}

/// Creates a message with the number `connection`.
fn marked(connection: u64, octets: &[u8]) -> Frame {
    Frame::message([&connection.to_be_bytes(), octets].concat())
}

/// Creates a tally of `total` packets with every other one received. Its length on the wire depends
/// on the total.
fn every_other(total: u64) -> Tally {
    let mut tally = Tally::new(total);
    for number in (0..total).step_by(2) {
        tally.mark(number);
    }
    tally
}

/// Receives datagrams until the blast's end.
fn hear_done(peer: &Stream) {
    let clock = Clock::start();
    loop {
        let frame = peer
            .receive(clock, Instant::ZERO + Duration::from_secs(30))
            .unwrap();
        if !frame.datagram {
            return;
        }
    }
}

#[test]
fn sender_rejects_impossible_tally() {
    let config = config(1_000_000, 1440);
    let packets = config.framing.packets();
    let answers: [Frame; 7] = [
        frame(&tally(STREAM, 1, &every_other(packets - 8))),
        frame(&tally(STREAM, 1, &every_other(packets + 8))),
        frame(&tally(STREAM, 1, &every_other(packets * 1000))),
        frame(&tally(STREAM, 1, &Tally::new(packets + 1))),
        frame(&tally(STREAM, 2, &every_other(packets))),
        marked(CONNECTION, &[2, 0, 1]),
        marked(CONNECTION, &[&[2, 0, 1][..], &[0xff; 5000]].concat()),
    ];
    for answer in answers {
        let [own, peer] = streams();
        let own = lane(own, None, true);
        let sender = Sender::new(own.clock.now(), config, 1);
        let failed = std::thread::spawn(move || fails(sender, own, config));
        hear_done(&peer);
        peer.send(&answer).unwrap();
        let error = failed.join().unwrap();
        assert!(
            matches!(error, Error::PeerMisbehaved(_)),
            "{answer:?}: {error}"
        );
    }
}

#[test]
fn sender_completes_on_final_tally_of_a_closed_connection() {
    let config = config(100_000, 1440);
    let mut all = Tally::new(config.framing.packets());
    (0..config.framing.packets()).for_each(|number| _ = all.mark(number));
    for _ in 0..100 {
        let [own, peer] = streams();
        let mut own = lane(own, None, true);
        let mut sender = Sender::new(own.clock.now(), config, 1);
        let ended = std::thread::spawn(move || {
            let mut source = object(config.framing.object_len as usize);
            run(&mut sender, &mut own, &mut source, &mut Patient)
        });
        hear_done(&peer);
        peer.send(&frame(&tally(STREAM, 1, &all))).unwrap();
        drop(peer);
        let ended = ended.join().unwrap();
        assert!(ended.is_ok(), "{ended:?}");
    }
}

/// Store whose peer confirms the whole object and closes, just before more bytes are sent.
struct Farewell {
    peer: Option<Stream>,
    own: Control,
    bytes: [u8; 1000],
}

impl Store for Farewell {
    fn gather(&mut self, span: Span) -> Result<&[u8], Error> {
        if let Some(peer) = self.peer.take() {
            peer.send(&frame(&stripe::wire::whole(STREAM)))?;
            drop(peer);
            for _ in 0..10_000 {
                if self.own.has_ended() {
                    break;
                }
                pause(Duration::from_millis(1));
            }
            assert!(
                self.own.has_ended(),
                "the connection did not end with its peer"
            );
        }
        Ok(&self.bytes[..span.len as usize])
    }

    fn slot(&mut self, _: Span) -> Result<Option<&mut [u8]>, Error> {
        Ok(None)
    }
}

#[test]
fn sender_completes_on_final_message_before_a_failed_send() {
    let config = stripe::Config {
        layout: stripe::PacketLayout {
            object_len: 1000,
            packet_len: 1000,
        },
        rate: Rate::UNLIMITED,
        stream: STREAM,
        streams: 0,
    };
    let [own, peer] = connect().map(|(tcp, tls)| Control::start(tcp, tls).unwrap());
    let mut lane = lane(own.open(STREAM).unwrap(), None, true);
    let stream = peer.open(STREAM).unwrap();
    drop(peer);
    let mut store = Farewell {
        peer: Some(stream),
        own,
        bytes: [7; 1000],
    };
    let width = Width::measured(1, Duration::ZERO);
    let mut sender = stripe::Sender::new(lane.clock.now(), config, width);
    let ended = run(&mut sender, &mut lane, &mut store, &mut Patient);
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn receiver_rejects_impossible_done_signal() {
    let config = config(1_000_000, 1440);
    for sent in [
        0,
        1,
        config.framing.packets() - 1,
        config.framing.packets() + 1,
        u64::MAX,
    ] {
        let [own, peer] = streams();
        let own = lane(own, None, true);
        let receiver = Receiver::new(own.clock.now(), config, 1);
        let failed = std::thread::spawn(move || fails(receiver, own, config));
        peer.send(&frame(&done(STREAM, 1, sent))).unwrap();
        let error = failed.join().unwrap();
        assert!(matches!(error, Error::PeerMisbehaved(_)), "{sent}: {error}");
    }
}

#[test]
fn messages_of_another_connection_are_ignored() {
    let config = config(1_000_000, 1440);
    let [own, peer] = streams();
    let own = lane(own, None, true);
    let receiver = Receiver::new(own.clock.now(), config, 1);
    let failed = std::thread::spawn(move || fails(receiver, own, config));
    let lie = done(STREAM, 1, 0);
    for connection in [CONNECTION - 1, CONNECTION + 1, 0] {
        peer.send(&marked(connection, lie.head.as_slice())).unwrap();
    }
    drop(peer);
    // The wrong done signals had other connection numbers.
    let error = failed.join().unwrap();
    assert!(matches!(error, Error::Network(_)), "{error}");
}

#[test]
fn receiver_ignores_malformed_messages_and_reports_a_lost_peer() {
    let config = config(1_000_000, 1440);
    let [own, peer] = streams();
    let own = lane(own, None, true);
    let receiver = Receiver::new(own.clock.now(), config, 1);
    let failed = std::thread::spawn(move || fails(receiver, own, config));
    for octets in [&[][..], &[0], &[99; 300], &[1, 0], &[2, 0, 1, 5], &[3, 9]] {
        for datagram in [false, true] {
            for mark in [&[][..], &CONNECTION.to_be_bytes()] {
                let octets = [mark, octets].concat();
                let head_len = octets.len().min(mark.len() + 8);
                let head_len = if datagram { head_len } else { octets.len() };
                peer.send(&Frame {
                    datagram,
                    head_len,
                    octets,
                })
                .unwrap();
            }
        }
    }
    drop(peer);
    let error = failed.join().unwrap();
    assert!(matches!(error, Error::Network(_)), "{error}");
}
