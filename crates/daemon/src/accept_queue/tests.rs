//! Tests of the queue of new connections: its slots, its limits, and who is evicted first.

use std::io::Write;

use lighthaul_io::host::clock::Clock;

use super::*;

/// Returns a queue for `most` connections, its listener, and a clock.
#[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
fn queue(most: u64) -> (AcceptQueue, TcpListener, Clock) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let handshakes = Handshakes::start(99).unwrap();
    let queue = AcceptQueue::new(&listener, handshakes, Known::default(), most).unwrap();
    (queue, listener, Clock::start())
}

#[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
fn call(listener: &TcpListener) -> TcpStream {
    TcpStream::connect(listener.local_addr().unwrap()).unwrap()
}

fn hello() -> Vec<u8> {
    let mut hello = vec![22, 3, 1, 0, 200, 1];
    hello.resize(205, 0);
    hello
}

#[test]
fn only_whole_client_hello_starts_handshake() {
    let (mut queue, listener, clock) = queue(99);
    let mut wait = || {
        let incoming = queue.wait(&listener, Duration::from_millis(300), || clock.now());
        (incoming.unwrap().len(), queue.waiting.len())
    };
    let (_silent, mut slow, mut foreign) = (call(&listener), call(&listener), call(&listener));
    assert_eq!(wait(), (0, 3));
    foreign.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    assert_eq!(wait(), (0, 2), "other protocols are closed");
    let hello = hello();
    slow.write_all(&hello[..3]).unwrap();
    assert_eq!(wait(), (0, 2));
    slow.write_all(&hello[3..100]).unwrap();
    assert_eq!(wait(), (0, 2));
    slow.write_all(&hello[100..]).unwrap();
    assert_eq!(wait(), (1, 1));
}

#[test]
fn connection_that_ends_before_its_client_hello_is_closed_at_once() {
    let (mut queue, listener, clock) = queue(99);
    let mut near = call(&listener);
    let from = near.local_addr().unwrap();
    queue.enter(listener.accept().unwrap().0, from, clock.now());
    near.write_all(&hello()[..3]).unwrap();
    drop(near);
    let incoming = queue.wait(&listener, Duration::from_secs(9), || clock.now());
    assert!(incoming.unwrap().is_empty() && queue.waiting.is_empty());
    assert_eq!(queue.dropped().invalid, 1);
}

#[test]
fn freed_slot_wakes_the_queue_once() {
    let (mut queue, listener, clock) = queue(99);
    let near = call(&listener);
    let address = near.local_addr().unwrap().ip();
    let slot = queue.handshakes.begin(&near, address, false, clock.now());
    drop(slot.unwrap());
    let is_woken = |queue: &mut AcceptQueue| {
        let events = queue.poller.wait(Duration::ZERO).unwrap();
        events.into_iter().any(|event| event.token == SLOT_FREED)
    };
    assert!(is_woken(&mut queue));
    queue
        .wait(&listener, Duration::ZERO, || clock.now())
        .unwrap();
    assert!(!is_woken(&mut queue), "it would never sleep again");
}

#[test]
fn aborted_connection_stops_no_other_and_other_errors_are_reported() {
    let (mut queue, listener, clock) = queue(99);
    let _near = call(&listener);
    let mut accept = |results: Vec<io::ErrorKind>| {
        let mut results = results.into_iter();
        let result = queue.accept(
            || match results.next() {
                Some(kind) => Err(kind.into()),
                None => listener.accept(),
            },
            clock.now(),
        );
        (result.map_err(|error| error.kind()), queue.waiting.len())
    };
    // such as too many open files
    let error = io::ErrorKind::OutOfMemory;
    assert_eq!(accept(vec![error]), (Err(error), 0));
    assert_eq!(accept(vec![io::ErrorKind::WouldBlock]), (Ok(()), 0));
    assert_eq!(accept(vec![io::ErrorKind::ConnectionAborted]), (Ok(()), 1));
}

#[test]
fn full_queue_evicts_new_hosts_before_recent_ones() {
    let (mut queue, listener, _clock) = queue(4);
    let now = Instant::ZERO;
    let from = |site: u8, host: u8| SocketAddr::from(([10, 0, site, host], 1));
    queue
        .known
        .recent_hosts
        .remember(from(9, 9).ip(), unix_seconds());
    let mut calls = Vec::new();
    for (site, host) in [(9, 9), (1, 1), (1, 2), (2, 1), (3, 1), (4, 1)] {
        calls.push(call(&listener));
        queue.enter(listener.accept().unwrap().0, from(site, host), now);
    }
    let waiting: Vec<_> = queue
        .waiting
        .values()
        .map(|connection| connection.from)
        .collect();
    // the largest site lost its oldest connection, then one of the single ones was closed
    assert_eq!(waiting[0], from(9, 9));
    assert!(
        !waiting.contains(&from(1, 1)) && waiting.contains(&from(4, 1)),
        "{waiting:?}"
    );
    assert_eq!((waiting.len(), queue.dropped().evicted), (4, 2));
    // a recent host evicts new hosts, and a new host evicts no recent one
    for _ in 0..4 {
        calls.push(call(&listener));
        queue.enter(listener.accept().unwrap().0, from(9, 9), now);
    }
    calls.push(call(&listener));
    queue.enter(listener.accept().unwrap().0, from(5, 5), now);
    assert!(
        queue
            .waiting
            .values()
            .all(|connection| connection.from == from(9, 9))
    );
}

#[test]
fn sites_that_failed_come_last_and_are_evicted_first() {
    let (mut queue, listener, clock) = queue(3);
    let from = |site: u8| SocketAddr::from(([10, 0, site, 1], 1));
    for site in 1..=3 {
        queue.known.failed_sites.add(from(site).ip(), clock.now());
    }
    let mut calls = Vec::new();
    let mut enter = |queue: &mut AcceptQueue, site| {
        let mut near = call(&listener);
        near.write_all(&hello()).unwrap();
        let tcp = listener.accept().unwrap().0;
        queue.enter(tcp, from(site), clock.now());
        calls.push(near);
    };
    for site in [1, 2, 3, 4] {
        enter(&mut queue, site);
    }
    // the last one replaced one that failed, and is first
    let start = |queue: &mut AcceptQueue| {
        let incoming = queue.start_handshakes(clock.now());
        incoming.iter().map(|one| one.from).collect::<Vec<_>>()
    };
    assert_eq!(start(&mut queue), [from(4), from(2), from(3)]);
    for site in [4, 5, 6, 1] {
        enter(&mut queue, site);
    }
    assert_eq!(start(&mut queue), [from(4), from(5), from(6)]);
    assert_eq!(queue.dropped().evicted, 2);
}

#[test]
fn recent_hosts_get_slots_before_all_others() {
    let (mut queue, listener, clock) = queue(200);
    let address = |site: u8| SocketAddr::from(([10, 0, site, 1], 1));
    let recent = SocketAddr::from(([250, 0, 0, 1], 1));
    queue
        .known
        .recent_hosts
        .remember(recent.ip(), unix_seconds());
    queue.known.failed_sites.add(address(200).ip(), clock.now());
    let mut calls = Vec::new();
    let mut enter = |queue: &mut AcceptQueue, from| {
        let mut near = call(&listener);
        near.write_all(&hello()).unwrap();
        let tcp = listener.accept().unwrap().0;
        queue.enter(tcp, from, clock.now());
        calls.push(near);
    };
    // it comes last, after more new hosts than get slots in one turn, and from the highest address
    enter(&mut queue, address(200));
    for site in 0..=STARTS_MAX as u8 {
        enter(&mut queue, address(site));
    }
    enter(&mut queue, recent);
    let start = |queue: &mut AcceptQueue| {
        let incoming = queue.start_handshakes(clock.now());
        incoming.iter().map(|one| one.from).collect::<Vec<_>>()
    };
    let first = start(&mut queue);
    assert_eq!((first[0], first.len()), (recent, STARTS_MAX));
    assert!(
        first[1..]
            .iter()
            .copied()
            .eq((0..STARTS_MAX as u8 - 1).map(address))
    );
    let last = STARTS_MAX as u8;
    let rest = [address(last - 1), address(last), address(200)];
    assert_eq!(start(&mut queue), rest);
}

/// Enters connections from these addresses with a whole `ClientHello`, and returns those that get a slot.
fn started(
    (queue, listener, clock): (&mut AcceptQueue, &TcpListener, &Clock),
    addresses: &[[u8; 4]],
) -> Vec<IpAddr> {
    let mut calls = Vec::new();
    for address in addresses {
        let mut near = call(listener);
        near.write_all(&hello()).unwrap();
        let tcp = listener.accept().unwrap().0;
        queue.enter(tcp, SocketAddr::from((*address, 1)), clock.now());
        calls.push(near);
    }
    let incoming = queue.start_handshakes(clock.now());
    incoming.iter().map(|one| one.from.ip()).collect()
}

#[test]
fn sites_take_turns_for_slots() {
    let (mut queue, listener, clock) = queue(64);
    let (first, second) = ([10, 0, 1, 1], [10, 0, 2, 1]);
    let order = started(
        (&mut queue, &listener, &clock),
        &[first, first, first, second],
    );
    assert_eq!(order, [first, second, first, first].map(IpAddr::from));
}

#[test]
fn slots_are_reserved_for_recent_hosts() {
    let (mut queue, listener, clock) = queue(64);
    queue.handshakes = Handshakes::start(8).unwrap();
    let recent = [250, 0, 0, 1];
    queue
        .known
        .recent_hosts
        .remember(recent.into(), unix_seconds());
    let mut addresses: Vec<_> = (0..8).map(|site| [10, 0, site, 1]).collect();
    addresses.push(recent);
    let order = started((&mut queue, &listener, &clock), &addresses);
    assert_eq!((order[0], order.len()), (IpAddr::from(recent), 1 + 6));
}

#[test]
fn one_site_gets_many_slots_where_no_other_waits() {
    let (mut queue, listener, clock) = queue(64);
    let mut calls = Vec::new();
    for _ in 0..8 {
        let mut near = call(&listener);
        near.write_all(&hello()).unwrap();
        let tcp = listener.accept().unwrap().0;
        queue.enter(tcp, SocketAddr::from(([10, 0, 0, 1], 1)), clock.now());
        calls.push(near);
    }
    assert_eq!(queue.start_handshakes(clock.now()).len(), 8);
}

#[test]
fn client_is_served_despite_silent_connections_from_many_sites() {
    let (mut queue, listener, clock) = queue(64);
    let mut calls = Vec::new();
    let mut enter = |queue: &mut AcceptQueue, address: [u8; 4]| {
        let near = call(&listener);
        let tcp = listener.accept().unwrap().0;
        queue.enter(tcp, SocketAddr::from((address, 1)), clock.now());
        calls.push(near);
    };
    for site in 0..64 {
        enter(&mut queue, [10, 0, site, 1]);
    }
    // its address is the highest of all, and its `ClientHello` comes later
    enter(&mut queue, [250, 0, 0, 1]);
    for site in 64..120 {
        enter(&mut queue, [10, 0, site, 1]);
    }
    calls[64].write_all(&hello()).unwrap();
    let incoming = queue.wait(&listener, Duration::from_secs(9), || clock.now());
    let from: Vec<_> = incoming.unwrap().iter().map(|one| one.from.ip()).collect();
    assert_eq!(from, [IpAddr::from([250, 0, 0, 1])]);
    // the oldest connections were closed
    let left = queue
        .waiting
        .values()
        .map(|connection| connection.from.ip());
    let left: Vec<_> = left.collect();
    assert_eq!(left[0], IpAddr::from([10, 0, 57, 1]), "{left:?}");
    assert_eq!(left.len(), 63);
}

#[test]
fn connections_time_out_and_one_host_is_limited() {
    let (mut queue, listener, _clock) = queue(CONNECTIONS_MAX);
    let from = SocketAddr::from(([10, 0, 0, 1], 1));
    let mut calls = Vec::new();
    for _ in 0..HOST_MAX + 3 {
        calls.push(call(&listener));
        queue.enter(listener.accept().unwrap().0, from, Instant::ZERO);
    }
    assert_eq!(queue.waiting.len(), HOST_MAX);
    queue.dropped();
    queue.sweep(Instant::ZERO + HELLO_TIMEOUT);
    assert_eq!(queue.dropped().invalid, HOST_MAX as u64);
    assert!(queue.waiting.is_empty() && queue.hosts.count(Prefix::host(from.ip())) == 0);
    assert!(
        queue
            .sites
            .iter()
            .all(|site| site.oldest_of_largest().is_none())
    );
}
