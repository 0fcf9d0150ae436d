//! Reservations by a scheduler.

use std::time::Duration;

use lighthaul::{
    Bytes, Client, Code, Fault, IsoDuration, NewReservation, ReservationEvent, ReservationFilter,
    ReservationState as State, Timestamp,
};
use lighthaul_io::host::clock::unix_nanos;

use crate::books::TestBooks;
use crate::ends::block_on;

const HOUR: Duration = Duration::from_hours(1);

/// Returns a request for a time of this length, which starts in `seconds`.
fn request(hold: Duration, seconds: u64) -> NewReservation {
    NewReservation {
        from: Some("here".to_owned()),
        to: Some("far".to_owned()),
        hold: Some(IsoDuration(hold)),
        start: Some(Timestamp(unix_nanos() + seconds * 1_000_000_000)),
        ..NewReservation::default()
    }
}

#[test]
fn reservation_is_quoted_made_committed_shown_and_cancelled() {
    let books = TestBooks::start("books");
    let client = books.client("ada");
    let wanted = request(HOUR, 3600);
    let quote = client.quote(&wanted).unwrap();
    assert_eq!(quote.path, ["here-far"]);
    let mut made = client.reserve(&wanted).unwrap();
    assert_eq!(made.state(), State::Reserved);
    assert_eq!(made.record().steps, quote.steps);
    let mut shown = client.reservation(made.id()).unwrap();
    made.commit().unwrap();
    assert_eq!((shown.state(), shown.id()), (State::Reserved, made.id()));
    shown.refresh().unwrap();
    assert_eq!(shown.record(), made.record());
    shown.cancel("no longer needed").unwrap();
    assert_eq!(shown.state(), State::Terminated);
    made.refresh().unwrap();
    let last = made.record().journal.last().unwrap();
    assert_eq!((&*last.who, &*last.why), ("ada", "no longer needed"));

    let filter = ReservationFilter {
        owner: Some("ada".to_owned()),
        state: Some(State::Terminated.to_string()),
    };
    let mut found = Vec::new();
    let listed = client.reservations(&filter, &mut |part| {
        found.extend(part.iter().map(|record| record.id));
        Ok(())
    });
    listed.unwrap();
    assert_eq!(found, [made.id()]);
}

#[test]
fn wait_for_the_start_ends_when_the_reservation_is_active() {
    let books = TestBooks::start("books-start");
    let client = books.client("ada");
    let wanted = NewReservation {
        commit: true,
        ..request(HOUR, 2)
    };
    let reservation = client.reserve(&wanted).unwrap();
    let pending = reservation.pending_start().unwrap();
    assert!(pending.wait_for(Duration::ZERO).is_none());
    let mut started = block_on(pending).unwrap();
    assert_eq!(started.state(), State::Active);
    // a second wait ends at once
    let again = reservation.pending_start().unwrap().wait().unwrap();
    assert_eq!(again.state(), State::Active);
    started.release("the work is done").unwrap();
    assert_eq!(started.state(), State::Released);
}

#[test]
fn wait_for_the_start_fails_if_it_or_the_reservation_is_cancelled() {
    let books = TestBooks::start("books-cancel");
    let mut reservation = books.client("ada").reserve(&request(HOUR, 3600)).unwrap();
    let pending = reservation.pending_start().unwrap();
    pending.cancel();
    let error = pending.wait().unwrap_err();
    assert_eq!(error.code(), Code::Interrupted, "{error}");
    // the reservation stays
    reservation.refresh().unwrap();
    assert_eq!(reservation.state(), State::Reserved);
    let pending = reservation.pending_start().unwrap();
    reservation.cancel("").unwrap();
    let error = pending.wait().unwrap_err();
    let fault = error.fault::<Fault>();
    assert!(matches!(fault, Some(Fault::Reservation { .. })), "{error}");
    assert!(error.text().contains("terminated"), "{error}");
}

#[test]
fn refused_requests_have_a_code_and_a_sentence() {
    let books = TestBooks::start("books-faults");
    let client = books.client("ada");
    let late = NewReservation {
        hold: None,
        size: Some(Bytes(1 << 40)),
        start: None,
        by: request(HOUR, 60).start,
        ..request(HOUR, 0)
    };
    let error = client.reserve(&late).unwrap_err();
    assert_eq!(error.code(), Code::Refused, "{error}");
    let error = client.reservation(77).unwrap_err();
    assert_eq!(error.code(), Code::Usage, "{error}");
    assert!(error.text().contains("77"), "{error}");
    let error = books.client("eve").quote(&late).unwrap_err();
    assert_eq!(error.code(), Code::Permission, "{error}");
    let error = Client::default().reservation(1).unwrap_err();
    assert!(matches!(error.fault(), Some(Fault::NoScheduler)), "{error}");
}

#[test]
fn events_show_each_change_once() {
    let books = TestBooks::start("books-events");
    let client = books.client("ada");
    let mut events = client.reservation_events(None).unwrap();
    assert!(events.next_within(Duration::ZERO).is_pending());
    let mut made = client.reserve(&request(HOUR, 3600)).unwrap();
    made.commit().unwrap();
    made.cancel("no longer needed").unwrap();
    let mut seen = Vec::new();
    while seen
        .last()
        .is_none_or(|event: &ReservationEvent| event.reservation.state != State::Terminated)
    {
        seen.push(events.next().unwrap().unwrap());
    }
    assert_eq!(seen[0].reservation.state, State::Reserved);
    assert!(seen.iter().all(|event| event.reservation.id == made.id()));
    // another program continues after the first event
    let again = client.reservation_events(Some(seen[0].seq)).unwrap();
    let rest = again.take(seen.len() - 1).map(Result::unwrap);
    let rest: Vec<_> = rest.collect();
    assert_eq!(rest, seen[1..]);
    let error = books.client("eve").reservation_events(None).unwrap_err();
    assert_eq!(error.code(), Code::Permission, "{error}");
    // this scheduler has no queue
    let error = client
        .job_events(1, 0)
        .unwrap()
        .next()
        .unwrap()
        .unwrap_err();
    assert_eq!(error.code(), Code::Usage, "{error}");
}
