//! Tests of a control connection with a malicious authenticated peer, which can only end it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::control::{Control, FRAME_MAX, Frame, QueueLimit};
use lighthaul_io::error::Error;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use rustls::Connection;

use crate::pair::connect;

/// Peer that writes arbitrary octets.
#[derive(Debug)]
struct Raw {
    tcp: TcpStream,
    tls: Connection,
}

impl Raw {
    fn say(&mut self, octets: &[u8]) -> std::io::Result<()> {
        for part in octets.chunks(16 << 10) {
            self.tls.writer().write_all(part)?;
            while self.tls.wants_write() {
                self.tls.write_tls(&mut self.tcp)?;
            }
        }
        Ok(())
    }
}

/// Starts a control connection with a raw peer.
fn start() -> (Control, Raw) {
    let [(tcp, tls), (peer_tcp, peer_tls)] = connect();
    (
        Control::start(tcp, tls).unwrap(),
        Raw {
            tcp: peer_tcp,
            tls: peer_tls,
        },
    )
}

fn header(len: u32, stream: u16, flags: u8, head_len: u8) -> Vec<u8> {
    [
        &len.to_be_bytes()[..],
        &stream.to_be_bytes(),
        &[flags, head_len],
    ]
    .concat()
}

/// Reads all frames, and returns the reason why the connection ended.
fn end(control: &Control) -> String {
    let stream = control.open(0).unwrap();
    let clock = Clock::start();
    loop {
        let heard = stream.receive(clock, Instant::ZERO + Duration::from_secs(30));
        let Err(error) = heard else { continue };
        assert!(matches!(error, Error::Network(_)), "{error}");
        return error.to_string();
    }
}

#[test]
fn silent_peer_ends_the_connection() {
    let (control, mut peer) = start();
    let stream = control.open(0).unwrap();
    control.limit_silence(Duration::from_millis(300));
    // each octet of a frame is a sign of life
    for octet in header(2, 0, 0, 0).into_iter().chain(*b"ab") {
        pause(Duration::from_millis(50));
        peer.say(&[octet]).unwrap();
    }
    let frame = stream.receive(Clock::start(), Instant::ZERO + Duration::from_secs(30));
    assert_eq!(frame.unwrap().octets, b"ab");
    let why = end(&control);
    assert!(why.contains("no data from the peer for 0.3 s"), "{why}");
}

#[test]
fn full_receive_queue_does_not_make_the_peer_silent() {
    let [(tcp, tls), (peer_tcp, peer_tls)] = connect();
    let control = Control::start(tcp, tls).unwrap();
    let stream = control.open(0).unwrap();
    let peer = Control::start(peer_tcp, peer_tls).unwrap();
    let from = peer.open(0).unwrap();
    for _ in 0..8 {
        from.send(&Frame::message(vec![0; 1 << 20])).unwrap();
    }
    control.limit_silence(Duration::from_millis(200));
    pause(Duration::from_millis(800));
    let clock = Clock::start();
    for _ in 0..8 {
        let frame = stream.receive(clock, Instant::ZERO + Duration::from_secs(30));
        assert_eq!(frame.unwrap().octets.len(), 1 << 20);
    }
}

/// A socket that is closed with unread octets resets its connection, which can destroy what it sent last.
#[test]
fn last_frame_arrives_while_the_peer_still_sends() {
    let (control, mut peer) = start();
    let stream = control.open(0).unwrap();
    let frame = [header(60_000, 0, 0, 0), vec![7; 60_000]].concat();
    for _ in 0..40 {
        peer.say(&frame).unwrap();
    }
    stream
        .send(&Frame::message(b"the verdict".to_vec()))
        .unwrap();
    drop((stream, control));
    for _ in 0..20 {
        pause(Duration::from_millis(10));
        // a host that stalls for seconds may find the connection closed
        peer.say(&frame).ok();
    }
    let mut came = Vec::new();
    while peer.tls.read_tls(&mut peer.tcp).unwrap() > 0 {
        peer.tls.process_new_packets().unwrap();
        peer.tls.reader().read_to_end(&mut came).ok();
    }
    assert!(came.ends_with(b"the verdict"), "{came:?}");
}

#[test]
fn malformed_frame_ends_the_connection() {
    for octets in [
        header(FRAME_MAX as u32 + 1, 0, 0, 0),
        header(u32::MAX, 0, 0, 0),
        header(10, 0, 4, 0),
        header(10, 0, 255, 0),
        header(10, 0, 0, 11),
    ] {
        let (control, mut peer) = start();
        peer.say(&octets).unwrap();
        let why = end(&control);
        assert!(why.contains("malformed frame"), "{octets:?}: {why}");
    }
}

#[test]
fn too_many_streams_end_the_connection() {
    let (control, mut peer) = start();
    for stream in 0..1000 {
        // The other side may close before all are written.
        if peer.say(&header(0, stream, 2, 0)).is_err() {
            break;
        }
    }
    let why = end(&control);
    assert!(why.contains("too many streams"), "{why}");
}

#[test]
fn flooding_peer_is_paused_and_its_frames_are_kept() {
    for len in [0, 1, 1000, 100_000] {
        let (control, mut peer) = start();
        peer.tcp
            .set_write_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        let frame = [header(len, 9, 2, 0), vec![7; len as usize]].concat();
        let many = frame.repeat((256 << 10) / frame.len() + 1);
        let mut said = 0;
        while peer.say(&many).is_ok() {
            said += many.len();
            assert!(
                said < 100 << 20,
                "{said} bytes of frames of {len} wait in memory"
            );
        }
        let stream = control.open(9).unwrap();
        let deadline = Instant::ZERO + Duration::from_secs(30);
        for _ in 0..10 {
            let heard = stream.receive(Clock::start(), deadline).unwrap();
            assert_eq!(heard.octets, vec![7; len as usize]);
        }
    }
}

#[test]
fn peer_that_closes_within_a_frame_is_reported() {
    let (control, mut peer) = start();
    peer.say(&header(1000, 0, 2, 0)).unwrap();
    peer.say(&[1; 500]).unwrap();
    drop(peer);
    let why = end(&control);
    assert!(why.contains("the peer closed the connection"), "{why}");
}

#[test]
fn octets_that_are_not_tls_end_the_connection() {
    let (control, mut peer) = start();
    peer.tcp.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let why = end(&control);
    assert!(why.contains("was lost"), "{why}");
}

#[test]
fn frames_before_a_violation_are_delivered() {
    let (control, mut peer) = start();
    let good = [header(3, 0, 2, 0), b"bye".to_vec()].concat();
    peer.say(&[good, header(1, 0, 99, 0)].concat()).unwrap();
    let stream = control.open(0).unwrap();
    let deadline = Instant::ZERO + Duration::from_secs(30);
    assert_eq!(
        stream.receive(Clock::start(), deadline).unwrap().octets,
        b"bye"
    );
    assert!(matches!(
        stream.receive(Clock::start(), deadline),
        Err(Error::Network(_))
    ));
}

/// Sends frames of a MiB until nothing more is taken, for at most `most` octets. Returns how many octets were.
fn flood(peer: &mut Raw, most: usize) -> usize {
    let frame = [header(1 << 20, 0, 2, 0), vec![7; 1 << 20]].concat();
    let mut said = 0;
    // TLS keeps the rest of a part that TCP does not take
    for part in frame.repeat(most >> 20).chunks(16 << 10) {
        if peer.say(part).is_err() {
            break;
        }
        said += part.len();
    }
    said
}

/// Starts a control connection with a peer that is not authorized, whose writes end when the buffers between are full.
fn start_unauthorized() -> (Control, Raw) {
    let [(tcp, tls), (peer_tcp, peer_tls)] = connect();
    for tcp in [&tcp, &peer_tcp] {
        let socket = socket2::SockRef::from(tcp);
        socket.set_recv_buffer_size(64 << 10).unwrap();
        socket.set_send_buffer_size(64 << 10).unwrap();
    }
    peer_tcp.set_nonblocking(false).unwrap();
    peer_tcp
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let peer = Raw {
        tcp: peer_tcp,
        tls: peer_tls,
    };
    (Control::start_unauthorized(tcp, tls).unwrap(), peer)
}

#[test]
fn buffer_grows_after_authorization_and_after_acceptance_of_the_request() {
    // what the sockets hold, with the overhead that the kernel counts
    const SOCKETS: usize = 1 << 20;
    for (limit, least, most) in [
        (None, 0, 64 << 10),
        (Some(QueueLimit::Small), 1 << 20, 2 << 20),
        (Some(QueueLimit::Full), 4 << 20, 5 << 20),
    ] {
        let (control, mut peer) = start_unauthorized();
        if let Some(limit) = limit {
            control.authorize();
            control.limit_queues(limit);
        }
        let said = flood(&mut peer, 20 << 20);
        assert!(
            (least..most + SOCKETS).contains(&said),
            "{limit:?}: {said} octets were accepted"
        );
    }
}

#[test]
fn frame_of_an_unauthorized_peer_is_received_after_authorization() {
    const LEN: usize = 1 << 20;
    let (control, mut peer) = start_unauthorized();
    // and a part that TLS has buffered
    let said = flood(&mut peer, LEN) + (16 << 10);
    assert!(
        said < LEN,
        "{said} octets of an unauthorized peer were accepted"
    );
    control.authorize();
    peer.tcp.set_write_timeout(None).unwrap();
    let stream = control.open(0).unwrap();
    while peer.tls.wants_write() {
        peer.tls.write_tls(&mut peer.tcp).unwrap();
    }
    let frame = [header(LEN as u32, 0, 2, 0), vec![7; LEN]].concat();
    peer.say(&frame[said..]).unwrap();
    let deadline = Instant::ZERO + Duration::from_secs(30);
    let frame = stream.receive(Clock::start(), deadline).unwrap();
    assert!(frame.octets.len() == LEN && frame.octets.iter().all(|octet| *octet == 7));
}

#[test]
fn frame_as_long_as_the_queue_arrives() {
    for (limit, len) in [
        (QueueLimit::Least, 256 << 10),
        (QueueLimit::Small, FRAME_MAX),
        (QueueLimit::Full, FRAME_MAX),
    ] {
        let (control, mut peer) = start();
        control.limit_queues(limit);
        let frame = [header(len as u32, 0, 2, 0), vec![7; len]].concat();
        let stream = control.open(0).unwrap();
        peer.say(&frame).unwrap();
        let deadline = Instant::ZERO + Duration::from_secs(30);
        let heard = stream.receive(Clock::start(), deadline).unwrap();
        assert_eq!(heard.octets.len(), len, "{limit:?}");
    }
}

/// A peer that sends requests and reads no answer must not grow the memory of the side that answers.
#[test]
fn peer_that_does_not_read_ends_the_connection() {
    let (control, _peer) = start();
    control.limit_queues(QueueLimit::Small);
    let stream = control.open(0).unwrap();
    let mut sent = 0;
    // a user of the connection that never looks whether there is room
    let error = loop {
        match stream.send(&Frame::message(vec![7; 64 << 10])) {
            Ok(()) => sent += 64 << 10,
            Err(error) => break error,
        }
        assert!(sent < 64 << 20, "everything is queued");
        if !stream.wait_for_room(Duration::ZERO) {
            // the sockets in between take their part first
            pause(Duration::from_millis(1));
        }
    };
    assert!(error.to_string().contains("does not read"), "{error}");
    let why = end(&control);
    assert!(why.contains("does not read"), "{why}");
    assert!(control.has_ended() && stream.wait_for_room(Duration::from_mins(1)));
}
