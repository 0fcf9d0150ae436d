//! Connections of strangers, of misbehaving neighbors, and of two domains at the same time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_domain_links::LinkFault;
use lighthaul_io::control::{Control, Frame, Stream};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::{self, Side};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_io::net::tcp;
use lighthaul_stargate::wire::{LEN_MAX, VERSION};
use lighthaul_stargate::{Body, CorrelationId, DomainId, Key, Message};

use super::peer::{Peer, hold, identification};
use super::site::{Chain, Folder, PATIENCE};

/// Connects with a key, and returns the stream of the connection.
fn connect(address: SocketAddr, identity: &Identity) -> (Control, Stream) {
    let mut tcp = tcp::connect("127.0.0.1", address.port()).unwrap();
    let tls = tls::handshake(&mut tcp, Side::Client, identity).unwrap();
    let control = Control::start(tcp, tls).unwrap();
    let stream = control.open(1).unwrap();
    (control, stream)
}

/// Returns the frames that come before the connection ends.
fn frames(stream: &Stream) -> Vec<Frame> {
    let clock = Clock::start();
    let mut frames = Vec::new();
    while let Ok(frame) = stream.receive(clock, Instant::ZERO + PATIENCE) {
        frames.push(frame);
    }
    assert!(clock.now() < Instant::ZERO + PATIENCE, "no end");
    frames
}

fn greeting(from: u32, to: u32) -> Frame {
    let mut octets = b"lighthaul domains ".to_vec();
    octets.push(VERSION);
    octets.extend(from.to_be_bytes());
    octets.extend(to.to_be_bytes());
    Frame::message(octets)
}

fn fault(chain: &Chain, at: u32, of: u32) -> Option<LinkFault> {
    let status = chain.services[&at].handle().status().unwrap();
    status.links[&DomainId(of)].fault.clone()
}

/// Waits until the links of two transports are up.
fn connected(one: &Peer, two: &Peer) {
    wait_for("both links are up", || {
        let mut statuses = [one, two]
            .into_iter()
            .flat_map(|peer| peer.transport.status());
        statuses.all(|(_, link)| link.is_connected)
    });
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = Clock::start();
    while !is_so() {
        assert!(clock.now() < Instant::ZERO + PATIENCE, "{what}");
        pause(Duration::from_millis(10));
    }
}

#[test]
fn unknown_host_only_gets_the_end_of_the_connection() {
    let chain = Chain::start("stranger", 2, |text| text);
    let address = chain.services[&2].local();
    let (_control, stream) = connect(address, &Identity::generate());
    // an error means that the connection has ended already
    stream.send(&greeting(1, 2)).ok();
    assert_eq!(frames(&stream), []);
    let mut tcp = tcp::connect("127.0.0.1", address.port()).unwrap();
    tcp.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut octets = Vec::new();
    // the end may come as a reset
    tcp.read_to_end(&mut octets).ok();
    // an alert of TLS: type 21, and no more
    assert!(octets.is_empty() || octets[0] == 21, "{octets:?}");
    let status = chain.services[&2].handle().status().unwrap();
    assert!(status.links[&DomainId(1)].is_connected);
    assert_eq!(status.links[&DomainId(1)].connections, 1);
}

#[test]
fn idle_connections_of_unknown_hosts_do_not_block_a_neighbor() {
    let folder = Folder::new("idle");
    let two = (1, None, folder.key(1));
    let two = Peer::start(identification(2, folder.identity(2), two));
    let port = two.transport.local().port();
    let mut idle: Vec<_> = (0..40)
        .map(|_| tcp::connect("127.0.0.1", port).unwrap())
        .collect();
    let one = (2, Some(two.transport.local()), folder.key(2));
    let one = Peer::start(identification(1, folder.identity(1), one));
    connected(&one, &two);
    // each idle connection ends, at the latest after the time for a handshake
    for tcp in &mut idle {
        assert!(tcp.read(&mut [0]).is_ok_and(|count| count == 0));
    }
}

#[test]
fn messages_wait_for_the_greeting_of_the_neighbor() {
    let folder = Folder::new("greeting");
    let two = (1, None, folder.key(1));
    let two = Peer::start(identification(2, folder.identity(2), two));
    let (_control, stream) = connect(two.transport.local(), &folder.identity(1));
    let clock = Clock::start();
    let next = |patience: Duration| stream.receive(clock, clock.now() + patience);
    assert_eq!(next(PATIENCE).unwrap(), greeting(2, 1));
    let (key, _) = hold(1, Duration::from_secs(5));
    let body = Body::Ask { key };
    two.send(1, body.clone());
    let early = next(Duration::from_millis(300));
    assert!(early.is_err(), "{early:?}");
    stream.send(&greeting(1, 2)).unwrap();
    wait_for("the link is up", || {
        let mut statuses = two.transport.status().into_values();
        statuses.all(|link| link.is_connected)
    });
    two.send(1, body.clone());
    let message = Message::decode(&next(PATIENCE).unwrap().octets).unwrap();
    assert_eq!(message.body, body);
}

/// Returns greetings and messages of domain 1 to domain 2, with the fault of each.
fn faulty(good: &[u8]) -> [(Frame, Vec<u8>, LinkFault); 7] {
    let (domain, me) = (1, 2);
    let (len, most) = (LEN_MAX + 1, LEN_MAX);
    let mut bad = good.to_vec();
    bad.push(0);
    [
        (
            greeting(1, 2),
            vec![1; LEN_MAX + 1],
            LinkFault::Long { domain, len, most },
        ),
        (greeting(1, 2), bad, LinkFault::Malformed { domain }),
        (
            greeting(1, 2),
            vec![VERSION],
            LinkFault::Malformed { domain },
        ),
        (
            greeting(3, 2),
            good.to_vec(),
            LinkFault::Greeting { domain, me },
        ),
        (
            newer(greeting(1, 2)),
            good.to_vec(),
            LinkFault::Version {
                domain,
                me,
                theirs: VERSION + 1,
                ours: VERSION,
            },
        ),
        (
            greeting(1, 3),
            good.to_vec(),
            LinkFault::Greeting { domain, me },
        ),
        (
            Frame::message(good.to_vec()),
            good.to_vec(),
            LinkFault::Greeting { domain, me },
        ),
    ]
}

#[test]
fn too_long_or_malformed_message_ends_the_connection() {
    let mut chain = Chain::start("frames", 3, |text| text);
    let address = chain.services[&2].local();
    chain.stop(1);
    let identity = chain.folder.identity(1);
    let key = Key {
        source: DomainId(1),
        id: CorrelationId(1),
        attempt: 0,
        leg: 0,
    };
    let sent = Instant::from_nanos(unix_nanos());
    let body = Body::Commit { key };
    let good = Message { sent, body }.encode();
    for (first, second, expected) in faulty(&good) {
        let (_control, stream) = connect(address, &identity);
        stream.send(&first).unwrap();
        stream.send(&Frame::message(second)).ok();
        let frames = frames(&stream);
        assert_eq!(frames[0], greeting(2, 1), "{expected}");
        assert_eq!(frames.len(), 1, "{expected}");
        wait_for("the fault is reported", || {
            fault(&chain, 2, 1).as_ref() == Some(&expected)
        });
    }
    // a good message is answered: the reservation is unknown
    let (_control, stream) = connect(address, &identity);
    stream.send(&greeting(1, 2)).unwrap();
    stream.send(&Frame::message(good)).unwrap();
    let clock = Clock::start();
    let until = Instant::ZERO + PATIENCE;
    assert_eq!(stream.receive(clock, until).unwrap(), greeting(2, 1));
    let answer = stream.receive(clock, until).unwrap();
    let answer = Message::decode(&answer.octets).unwrap().body;
    assert!(matches!(answer, Body::Aborted { .. }), "{answer:?}");
    let long = vec![0; (256 << 10) + 1];
    stream.send(&Frame::message(long)).unwrap();
    frames(&stream);
}

/// Returns the greeting of software with the next version.
fn newer(mut greeting: Frame) -> Frame {
    greeting.octets[b"lighthaul domains ".len()] += 1;
    greeting
}

#[test]
fn key_that_is_pinned_for_another_number_delivers_no_message() {
    let folder = Folder::new("number");
    // domain 1 takes the key of domain 3 for that of domain 2
    let one = (2, None, folder.key(3));
    let one = Peer::start(identification(1, folder.identity(1), one));
    let three = (1, Some(one.transport.local()), folder.key(1));
    let three = Peer::start(identification(3, folder.identity(3), three));
    let (_, body) = hold(1, Duration::from_secs(10));
    let (domain, me) = (2, 1);
    wait_for("the numbers are compared", || {
        three.send(1, body.clone());
        one.transport.status()[&DomainId(2)].fault == Some(LinkFault::Greeting { domain, me })
    });
    assert_eq!(one.answer(Duration::from_millis(300)), None);
    assert_eq!(one.transport.status()[&DomainId(2)].received, 0);
    assert!(!three.transport.status()[&DomainId(1)].is_connected);
}

#[test]
fn host_with_another_key_is_not_accepted_as_the_neighbor() {
    let folder = Folder::new("key");
    let three = (1, None, folder.key(1));
    let three = Peer::start(identification(3, folder.identity(3), three));
    let address = three.transport.local();
    let one = (2, Some(address), folder.key(2));
    let one = Peer::start(identification(1, folder.identity(1), one));
    let expected = LinkFault::OtherKey {
        domain: 2,
        address: address.to_string(),
        shown: folder.key(3),
        pinned: folder.key(2),
    };
    wait_for("the key is refused", || {
        one.transport.status()[&DomainId(2)].fault.as_ref() == Some(&expected)
    });
    assert_eq!(one.transport.status()[&DomainId(2)].connections, 0);
}

#[test]
fn neighbor_that_does_not_know_the_key_is_named_with_the_remedy() {
    let folder = Folder::new("unknown");
    let two = (1, None, folder.key(7));
    let two = Peer::start(identification(2, folder.identity(2), two));
    let one = (2, Some(two.transport.local()), folder.key(2));
    let one = Peer::start(identification(1, folder.identity(1), one));
    let (domain, me, key) = (2, 1, folder.key(1));
    wait_for("the end is explained", || {
        let expected = LinkFault::NotGreeted { domain, me, key };
        one.transport.status()[&DomainId(2)].fault == Some(expected)
    });
    assert_eq!(two.transport.status()[&DomainId(1)].connections, 0);
}

#[test]
fn connection_ends_when_the_key_of_the_neighbor_expires() {
    let folder = Folder::new("expires");
    let two = (1, None, folder.key(1));
    let mut known = identification(2, folder.identity(2), two);
    let neighbor = known.neighbors.get_mut(&DomainId(1)).unwrap();
    neighbor.expires = Instant::from_nanos(unix_nanos()) + Duration::from_secs(3);
    let two = Peer::start(known);
    let one = (2, Some(two.transport.local()), folder.key(2));
    let one = Peer::start(identification(1, folder.identity(1), one));
    connected(&one, &two);
    let expected = Some(LinkFault::Expired { domain: 1 });
    wait_for("the key expires", || {
        two.transport.status()[&DomainId(1)].fault == expected
    });
    wait_for("domain 1 notices", || {
        let link = &one.transport.status()[&DomainId(2)];
        matches!(link.fault, Some(LinkFault::NotGreeted { .. }))
    });
}

#[test]
fn neighbor_whose_key_has_expired_is_never_connected() {
    let folder = Folder::new("expired");
    // a minute ago
    let past = Instant::from_nanos(unix_nanos() - 60_000_000_000);
    let expired = |mut known: lighthaul_domain_links::Identification, of: u32| {
        let neighbor = known.neighbors.get_mut(&DomainId(of)).unwrap();
        neighbor.expires = past;
        known
    };
    let fault = |peer: &Peer, of: u32| peer.transport.status()[&DomainId(of)].fault.clone();
    // the listener refuses the connection of its neighbor
    let two = identification(2, folder.identity(2), (1, None, folder.key(1)));
    let two = Peer::start(expired(two, 1));
    let about = (2, Some(two.transport.local()), folder.key(2));
    let one = Peer::start(identification(1, folder.identity(1), about));
    wait_for("the listener names the key", || {
        fault(&two, 1) == Some(LinkFault::Expired { domain: 1 })
    });
    assert!(!one.transport.status()[&DomainId(2)].is_connected);
    drop(one);
    // and so does the caller
    let one = identification(1, folder.identity(1), about);
    let one = Peer::start(expired(one, 2));
    wait_for("the caller names the key", || {
        fault(&one, 2) == Some(LinkFault::Expired { domain: 2 })
    });
    assert!(!two.transport.status()[&DomainId(1)].is_connected);
}

#[test]
fn one_connection_is_used_when_both_sides_connect() {
    let folder = Folder::new("both");
    for round in 0..6 {
        let ports = [free_port(), free_port()];
        let start = |me: u32| {
            let other = 3 - me;
            let pinned = (other, Some(ports[other as usize - 1]), folder.key(other));
            let known = identification(me, folder.identity(me), pinned);
            Peer::start_at(ports[me as usize - 1], known)
        };
        let (one, two) = if round % 2 == 0 {
            let one = start(1);
            (one, start(2))
        } else {
            let two = start(2);
            pause(Duration::from_millis(round * 100));
            (start(1), two)
        };
        connected(&one, &two);
        // a message passes in each direction, at the latest when the last connection is in use
        let (_, body) = hold(1, Duration::from_secs(10));
        assert_eq!(one.ask_to(2, &body, &two), body);
        assert_eq!(two.ask_to(1, &body, &one), body);
        for peer in [&one, &two] {
            let links = peer.transport.status();
            assert!(
                links.values().all(|link| link.connections <= 3),
                "{links:?}"
            );
        }
    }
}

#[test]
fn messages_of_a_flood_arrive_in_their_order() {
    let folder = Folder::new("flood");
    let two = (1, None, folder.key(1));
    let two = Peer::start(identification(2, folder.identity(2), two));
    let one = (2, Some(two.transport.local()), folder.key(2));
    let one = Peer::start(identification(1, folder.identity(1), one));
    connected(&one, &two);
    let body = |id| Body::Commit {
        key: Key {
            source: DomainId(1),
            id: CorrelationId(id),
            attempt: 0,
            leg: 0,
        },
    };
    // fewer than wait at most, so that none is dropped
    for id in 0..3000 {
        one.send(2, body(id));
    }
    for id in 0..3000 {
        assert_eq!(two.answer(PATIENCE), Some(body(id)));
    }
    wait_for("all are counted", || {
        let link = &two.transport.status()[&DomainId(1)];
        (link.received, link.connections) == (3000, 1)
    });
    assert_eq!(one.transport.status()[&DomainId(2)].dropped, 0);
}

#[test]
fn neighbor_is_connected_again_after_an_absence() {
    let folder = Folder::new("again");
    let port = free_port();
    let start_two = || {
        let known = identification(2, folder.identity(2), (1, None, folder.key(1)));
        Peer::start_at(port, known)
    };
    let one = (2, Some(port), folder.key(2));
    let one = Peer::start(identification(1, folder.identity(1), one));
    let (_, body) = hold(1, Duration::from_secs(10));
    for round in 1..=3 {
        let two = start_two();
        connected(&one, &two);
        assert_eq!(one.ask_to(2, &body, &two), body);
        assert_eq!(one.transport.status()[&DomainId(2)].connections, round);
        drop(two);
        wait_for("the end is noticed", || {
            !one.transport.status()[&DomainId(2)].is_connected
        });
    }
}

#[test]
fn clock_of_a_neighbor_is_compared_with_each_message() {
    let folder = Folder::new("clocks");
    let port = free_port();
    let two = identification(2, folder.identity(2), (1, None, folder.key(1)));
    let two = Peer::start_at(port, two);
    let one = (2, Some(port), folder.key(2));
    let one = Peer::start(identification(1, folder.identity(1), one));
    connected(&one, &two);
    let minutes = || {
        let link = two.transport.status()[&DomainId(1)].clone();
        let offset = link.clock_offset_ns;
        offset.map(|ns| (ns as f64 / 60e9).round() as i64)
    };
    assert_eq!(minutes(), None);
    let (key, _) = hold(1, Duration::from_secs(10));
    for expected in [-9, 9, 0] {
        let sent = unix_nanos().saturating_add_signed(expected * 60_000_000_000);
        let message = Message {
            sent: Instant::from_nanos(sent),
            body: Body::Ask { key },
        };
        one.transport.send(DomainId(2), &message);
        wait_for("the clocks are compared", || minutes() == Some(expected));
    }
}

/// Returns an address that is free at this moment.
fn free_port() -> SocketAddr {
    let listener: TcpListener = tcp::listen(super::site::any_port()).unwrap();
    listener.local_addr().unwrap()
}
