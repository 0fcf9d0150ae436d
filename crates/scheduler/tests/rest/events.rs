//! Changes as they happen.

use lighthaul_circuit::reservation::State;
use lighthaul_scheduler::word::{Kind, NewReservation};

use crate::stage::{Stage, ahead, bytes};

#[test]
fn a_listener_hears_what_happens_in_order_and_goes_on_where_it_stopped() {
    let stage = Stage::new();
    let (ada, bob, olga) = (
        stage.client("ada"),
        stage.client("bob"),
        stage.client("olga"),
    );
    let request = NewReservation {
        start: Some(ahead(600)),
        ..bytes(1_000_000)
    };
    let first = ada.reserve(&request).unwrap();
    let mut heard = ada.events(0).unwrap().map(Result::unwrap);
    let one = heard.next().unwrap();
    assert_eq!((one.kind, one.reservation.id), (Kind::Reserved, first.id));
    // others are not heard of
    bob.reserve(&request).unwrap();
    ada.commit(first.id, "").unwrap();
    let two = heard.next().unwrap();
    assert_eq!(
        (two.kind, two.reservation.state),
        (Kind::Changed, State::Committed)
    );
    assert!(two.seq > one.seq && two.at >= one.at);
    let again = ada
        .events(one.seq)
        .unwrap()
        .map(Result::unwrap)
        .next()
        .unwrap();
    assert_eq!(again, two);
    let all: Vec<_> = olga
        .events(0)
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
fn what_comes_is_what_browsers_read() {
    use std::io::{Read, Write};
    let stage = Stage::new();
    stage.client("ada").reserve(&bytes(1_000_000)).unwrap();
    let mut tcp = std::net::TcpStream::connect(stage.address).unwrap();
    let head = "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ada\r\nLast-Event-ID: 0\r\n\r\n";
    tcp.write_all(head.as_bytes()).unwrap();
    tcp.set_read_timeout(Some(std::time::Duration::from_secs(10)))
        .unwrap();
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
    let (status, _, _) = stage.raw("GET", "/v1/events", "ada\r\nLast-Event-ID: x", "");
    assert_eq!(status, 400);
}
