//! Event streams.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_booking_client::client::Client;
use lighthaul_booking_client::json::{EventKind, NewReservation};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::{Clock, unix_nanos};

use crate::test_server::{Setup, TestServer, ahead, bytes, problem};

#[test]
fn events_arrive_in_order_and_continue_after_a_reconnect() {
    let test_server = TestServer::new();
    let (ada, bob, olga) = (
        test_server.client("ada"),
        test_server.client("bob"),
        test_server.client("olga"),
    );
    let request = NewReservation {
        start: Some(ahead(600)),
        ..bytes(1_000_000)
    };
    let first = ada.reserve(&request).unwrap();
    let mut heard = ada
        .follow_reservations(Some(0))
        .unwrap()
        .map(Result::unwrap);
    let one = heard.next().unwrap();
    assert_eq!(
        (one.kind, one.reservation.id),
        (EventKind::Reserved, first.id)
    );
    // users do not receive events of others
    bob.reserve(&request).unwrap();
    ada.commit(first.id, "").unwrap();
    let two = heard.next().unwrap();
    assert_eq!(
        (two.kind, two.reservation.state),
        (EventKind::Changed, ReservationState::Committed)
    );
    assert!(two.seq > one.seq && two.at >= one.at);
    let again = ada
        .follow_reservations(Some(one.seq))
        .unwrap()
        .map(Result::unwrap)
        .next()
        .unwrap();
    assert_eq!(again, two);
    let all: Vec<_> = olga
        .follow_reservations(Some(0))
        .unwrap()
        .map(Result::unwrap)
        .take(3)
        .collect();
    let owners: Vec<&str> = all
        .iter()
        .map(|event| event.reservation.owner.as_str())
        .collect();
    assert_eq!(owners, ["ada", "bob", "ada"]);
}

#[test]
fn resumption_after_events_that_are_no_longer_kept_is_refused() {
    let mut setup = Setup::default();
    setup.config.events_max = 3;
    let test_server = TestServer::of(setup);
    let (ada, bob, olga) = (
        test_server.client("ada"),
        test_server.client("bob"),
        test_server.client("olga"),
    );
    let request = NewReservation {
        start: Some(ahead(600)),
        ..bytes(1_000_000)
    };
    bob.reserve(&request).unwrap();
    let held = ada.reserve(&request).unwrap();
    let next = |client: &Client, after| {
        let mut events = client.follow_reservations(Some(after)).unwrap();
        events.next().unwrap().unwrap()
    };
    let first = next(&ada, 0);
    ada.commit(held.id, "").unwrap();
    for (client, after) in [(&ada, 0), (&olga, 0), (&ada, first.seq - 1)] {
        let gone = problem(client.follow_reservations(Some(after)).map(drop));
        assert_eq!(
            (gone.status, gone.kind.as_str()),
            (410, "urn:lighthaul:problem:gone")
        );
        assert!(gone.detail.contains("from now on"), "{gone:?}");
    }
    // the events of others stay
    assert_eq!(next(&bob, 0).kind, EventKind::Reserved);
    for client in [&ada, &olga] {
        let committed = next(client, first.seq).reservation;
        assert_eq!(committed.state, ReservationState::Committed);
    }
}

#[test]
fn stream_has_the_format_of_server_sent_events() {
    let test_server = TestServer::new();
    test_server
        .client("ada")
        .reserve(&bytes(1_000_000))
        .unwrap();
    let mut tcp = TcpStream::connect(test_server.address).unwrap();
    let head = "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ada\r\nLast-Event-ID: 0\r\n\r\n";
    tcp.write_all(head.as_bytes()).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut text = String::new();
    let mut some = [0; 4096];
    while !text.contains("\n\n") {
        let len = tcp.read(&mut some).unwrap();
        assert!(len > 0, "{text}");
        text.push_str(std::str::from_utf8(&some[..len]).unwrap());
    }
    assert!(
        text.to_lowercase()
            .contains("content-type: text/event-stream"),
        "{text}"
    );
    for line in ["\nid: ", "\nevent: reserved", "\ndata: {"] {
        assert!(text.replace('\r', "").contains(line), "{line}: {text}");
    }
    let (status, _, _) = test_server.raw("GET", "/v1/events", "ada\r\nLast-Event-ID: x", "");
    assert_eq!(status, 400);
}

/// Rewrites the line of `token` in the token file with `change` behind the hash, or removes it.
fn relist(test_server: &TestServer, token: &str, change: Option<&str>) {
    let path = test_server.folder.join("tokens");
    let hash = Fingerprint::of_token(token).to_string();
    let text = fs::read_to_string(&path).unwrap();
    let others = text.lines().filter(|line| !line.starts_with(&hash));
    let changed = change.map(|words| format!("{hash} {words}"));
    let lines = others.map(str::to_owned).chain(changed);
    let text: String = lines.map(|line| line + "\n").collect();
    fs::write(path, text).unwrap();
}

/// Opens a stream of all events of `token`.
fn listen(test_server: &TestServer, token: &str) -> TcpStream {
    let mut tcp = TcpStream::connect(test_server.address).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!(
        "GET /v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nLast-Event-ID: 0\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).unwrap();
    let mut some = [0; 4096];
    let len = tcp.read(&mut some).unwrap();
    assert!(
        some[..len].starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&some[..len])
    );
    tcp
}

/// Returns true if a stream ends within [`PROMISED`].
fn ends(stream: &mut TcpStream) -> bool {
    let clock = Clock::start();
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    while clock.now() < Instant::ZERO + PROMISED {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(why) => assert_eq!(why.kind(), ErrorKind::WouldBlock, "{why}"),
        }
    }
    false
}

#[test]
fn stream_ends_when_its_token_is_removed_renamed_or_expires() {
    for role in ["user", "operator", "admin"] {
        let soon = unix_nanos() / 1_000_000_000 + 2;
        for change in [
            None,
            Some("eve user".to_owned()),
            Some(format!("mia {role} expires={soon}")),
            Some(format!("mia {role} nonsense")),
        ] {
            let test_server = TestServer::new();
            relist(&test_server, "mia", Some(&format!("mia {role}")));
            let mut stream = listen(&test_server, "mia");
            relist(&test_server, "mia", change.as_deref());
            assert!(ends(&mut stream), "{role}, {change:?}");
        }
    }
}

#[test]
fn operator_demoted_to_user_receives_no_events_of_other_owners() {
    for role in ["operator", "admin"] {
        let test_server = TestServer::new();
        relist(&test_server, "mia", Some(&format!("mia {role}")));
        let (mia, bob) = (test_server.client("mia"), test_server.client("bob"));
        let request = NewReservation {
            start: Some(ahead(600)),
            ..bytes(1_000_000)
        };
        let mut heard = mia
            .follow_reservations(Some(0))
            .unwrap()
            .map(Result::unwrap);
        let others = bob.reserve(&request).unwrap();
        assert_eq!(heard.next().unwrap().reservation.id, others.id);
        relist(&test_server, "mia", Some("mia user"));
        let clock = Clock::start();
        let is_narrowed = (0..100).any(|_| {
            let began = clock.now();
            bob.reserve(&request).unwrap();
            let own = mia.reserve(&request).unwrap();
            let mut last = heard.next().unwrap();
            let first = last.reservation.id;
            while last.reservation.id != own.id {
                last = heard.next().unwrap();
            }
            // no later event of others is shown
            let is_own = first == own.id;
            assert!(is_own || began < Instant::ZERO + PROMISED, "{role}");
            thread::sleep(Duration::from_millis(100));
            is_own
        });
        assert!(is_narrowed, "{role}");
    }
}

#[test]
fn stream_of_an_unchanged_token_continues() {
    let test_server = TestServer::new();
    let ada = test_server.client("ada");
    let mut heard = ada
        .follow_reservations(Some(0))
        .unwrap()
        .map(Result::unwrap);
    let request = NewReservation {
        start: Some(ahead(600)),
        ..bytes(1_000_000)
    };
    for _ in 0..4 {
        relist(&test_server, "bob", Some("bob user"));
        thread::sleep(Duration::from_millis(700));
        let made = ada.reserve(&request).unwrap();
        assert_eq!(heard.next().unwrap().reservation.id, made.id);
    }
}

/// Maximum time until narrowed rights hold in running streams.
const PROMISED: Duration = Duration::from_secs(5);
