//! Actions on reservations.

use lighthaul_booking_client::client::Filter;
use lighthaul_booking_client::json::{Bytes, Change, NewOutage, NewReservation, Provision};
use lighthaul_booking_client::reservation::ReservationState;

use crate::test_server::{TestServer, ahead, bytes, problem};

#[test]
fn reservation_is_held_committed_provisioned_and_released() {
    let test_server = TestServer::new();
    let ada = test_server.client("ada");
    let request = NewReservation {
        provision: Provision::Manual,
        start: Some(ahead(3600)),
        ..bytes(125_000_000)
    };
    let held = ada.reserve(&request).unwrap();
    assert_eq!(
        (held.state, held.owner.as_str()),
        (ReservationState::Reserved, "ada")
    );
    assert_eq!(held.path, ["a-b", "b-c"]);
    // a second at 1 Gb/s
    let step = held.steps[0];
    assert_eq!(
        (held.steps.len(), step.rate_bps, step.till.0 - step.from.0),
        (1, 1_000_000_000, 1_000_000_000)
    );
    assert_eq!(held.promised_end, step.till);
    assert!(held.hold_till.is_some());
    let id = held.id;
    let committed = ada.commit(id, "it is needed").unwrap();
    assert_eq!(
        (committed.state, committed.hold_till),
        (ReservationState::Committed, None)
    );
    assert_eq!(
        ada.provision(id, "").unwrap().state,
        ReservationState::Provisioned
    );
    let released = ada.release(id, "done early").unwrap();
    assert_eq!(released.state, ReservationState::Released);
    let reports: Vec<_> = released
        .journal
        .iter()
        .map(|line| (line.to, line.who.as_str(), line.why.as_str()))
        .collect();
    assert_eq!(
        reports[1],
        (ReservationState::Committed, "ada", "it is needed")
    );
    assert_eq!(
        reports[3],
        (ReservationState::Released, "ada", "done early")
    );
    assert_eq!(ada.reservation(id).unwrap(), released);
    let late = problem(ada.commit(id, ""));
    assert_eq!(
        (late.status, late.kind.as_str()),
        (409, "urn:lighthaul:problem:order")
    );
    assert!(late.detail.contains("reserve again"), "{late:?}");
}

#[test]
fn uncommitted_reservation_expires() {
    let mut setup = crate::test_server::Setup::default();
    setup.config.hold = std::time::Duration::from_secs(1);
    let test_server = TestServer::of(setup);
    let ada = test_server.client("ada");
    let held = ada
        .reserve(&NewReservation {
            start: Some(ahead(600)),
            ..bytes(1_000_000)
        })
        .unwrap();
    let events = ada.follow_reservations(Some(0)).unwrap();
    let ended = events
        .map(Result::unwrap)
        .find(|event| event.reservation.state == ReservationState::Terminated)
        .unwrap();
    assert_eq!(ended.reservation.id, held.id);
    assert_eq!(ended.reservation.journal[1].who, "clock");
    assert!(ended.reservation.journal[1].at >= held.hold_till.unwrap());
    let calendar = ada.calendar("a-b", ahead(0), ahead(3600)).unwrap();
    assert!(calendar.allocations.is_empty(), "{calendar:?}");
    assert!(
        calendar
            .free
            .iter()
            .all(|free| free.bps == calendar.capacity_bps),
        "{calendar:?}"
    );
}

#[test]
fn quote_equals_the_later_grant_and_books_no_capacity() {
    let test_server = TestServer::new();
    let ada = test_server.client("ada");
    let request = NewReservation {
        start: Some(ahead(600)),
        ..bytes(1_250_000_000)
    };
    let quote = ada.quote(&request).unwrap();
    assert_eq!(
        ada.reservations(&Filter::default(), None).unwrap().items,
        []
    );
    let booked = ada.reserve(&request).unwrap();
    assert_eq!(
        (booked.path, booked.steps, booked.promised_end),
        (quote.path, quote.steps, quote.promised_end)
    );
}

#[test]
fn same_key_and_body_get_the_same_answer() {
    let test_server = TestServer::new();
    let ask = |body: &str| {
        let path = "/v1/reservations";
        let key = "ada\r\nIdempotency-Key: k-1";
        test_server.raw("POST", path, key, body)
    };
    let body = r#"{"from": "a", "to": "c", "size": "1GB"}"#;
    let (first, again) = (ask(body), ask(body));
    assert_eq!((first.0, again.0), (201, 201));
    assert_eq!(first.2, again.2);
    let other = ask(r#"{"from": "a", "to": "c", "size": "2GB"}"#);
    assert_eq!(other.0, 409, "{}", other.2);
    assert!(
        other.2.contains("urn:lighthaul:problem:idempotency"),
        "{}",
        other.2
    );
    let count = test_server
        .client("ada")
        .reservations(&Filter::default(), None)
        .unwrap()
        .items
        .len();
    assert_eq!(count, 1);
    // keys of other owners are independent
    let path = "/v1/reservations";
    let bobs = test_server.raw("POST", path, "bob\r\nIdempotency-Key: k-1", body);
    assert_eq!(bobs.0, 201);
    assert_ne!(bobs.2, first.2);
}

#[test]
fn list_has_pages_without_gaps_and_only_own_reservations() {
    let test_server = TestServer::new();
    let (ada, bob, olga) = (
        test_server.client("ada"),
        test_server.client("bob"),
        test_server.client("olga"),
    );
    let mut made = Vec::new();
    for nth in 0..7 {
        let principal = if nth % 3 == 0 { &bob } else { &ada };
        made.push(principal.reserve(&bytes(1_000_000)).unwrap().id);
    }
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let (status, _, body) = test_server.raw(
            "GET",
            &format!("/v1/reservations?limit=2&after={after}"),
            "olga",
            "",
        );
        assert_eq!(status, 200);
        // the body may be chunked
        let page = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
        let page: serde_json::Value = serde_json::from_str(page).unwrap();
        let ids = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].as_u64().unwrap());
        seen.extend(ids);
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, made);
    let count = |client: &lighthaul_booking_client::client::Client, owner: Option<&str>| {
        let filter = Filter {
            owner: owner.map(str::to_owned),
            state: None,
        };
        client.reservations(&filter, None).unwrap().items.len()
    };
    assert_eq!(
        (count(&ada, None), count(&bob, None), count(&olga, None)),
        (4, 3, 7)
    );
    assert_eq!(
        (count(&bob, Some("bob")), count(&olga, Some("bob"))),
        (3, 3)
    );
    let theirs = Filter {
        owner: Some("bob".to_owned()),
        state: None,
    };
    assert_eq!(problem(ada.reservations(&theirs, None)).status, 403);
    let filter = Filter {
        owner: None,
        state: Some("committed".to_owned()),
    };
    assert_eq!(olga.reservations(&filter, None).unwrap().items, []);
    let hidden = problem(ada.reservation(made[0]));
    assert_eq!(hidden.status, 404);
    assert_eq!(problem(ada.cancel(made[0], "")).status, 404);
    assert_eq!(
        olga.cancel(made[0], "by order").unwrap().state,
        ReservationState::Terminated
    );
    let (status, _, _) = test_server.raw("GET", "/v1/reservations?limit=0", "ada", "");
    assert_eq!(status, 400);
}

#[test]
fn reservation_can_be_extended_and_shrunk() {
    let test_server = TestServer::new();
    let ada = test_server.client("ada");
    let request = NewReservation {
        start: Some(ahead(600)),
        commit: true,
        ..bytes(125_000_000)
    };
    let made = ada.reserve(&request).unwrap();
    let to = |bytes| Change {
        size: Some(Bytes(bytes)),
        hold: None,
        why: "it was counted again".to_owned(),
    };
    let grown = ada.extend(made.id, &to(250_000_000)).unwrap();
    assert_eq!(grown.promised_end.0, made.promised_end.0 + 1_000_000_000);
    let shrunk = ada.shrink(made.id, &to(125_000_000)).unwrap();
    assert_eq!(shrunk.promised_end, made.promised_end);
    assert_eq!(problem(ada.extend(made.id, &Change::default())).status, 422);
}

#[test]
fn outage_moves_reservations_and_needs_an_operator() {
    let test_server = TestServer::new();
    let (ada, olga) = (test_server.client("ada"), test_server.client("olga"));
    let request = NewReservation {
        start: Some(ahead(600)),
        commit: true,
        ..bytes(125_000_000)
    };
    let made = ada.reserve(&request).unwrap();
    let outage = NewOutage {
        link: "b-c".to_owned(),
        from: Some(ahead(300)),
        till: ahead(900),
        why: "a splice".to_owned(),
    };
    assert_eq!(problem(ada.outage(&outage)).status, 403);
    let view = olga.outage(&outage).unwrap();
    assert_eq!((view.moved, view.failed), (vec![made.id], vec![]));
    let moved = ada.reservation(made.id).unwrap();
    assert!(moved.steps[0].from >= view.till, "{moved:?}");
    assert_eq!(olga.lift(view.id).unwrap().id, view.id);
    assert_eq!(problem(olga.lift(view.id)).status, 404);
}

#[test]
fn clock_offset_is_measured() {
    let test_server = TestServer::new();
    let (ahead, error) = test_server.client("ada").clock_offset().unwrap();
    assert!(
        ahead.unsigned_abs() <= error + 1_000_000,
        "{ahead} ns, to {error} ns"
    );
}
