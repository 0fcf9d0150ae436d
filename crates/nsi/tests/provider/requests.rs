//! Rights of requesters, and criteria that are accepted.

use std::path::Path;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_nsi::message::body::QueryKind;
use lighthaul_nsi::message::name::REQUESTER_PROTOCOL;
use lighthaul_nsi::message::query::{Query, Range};
use lighthaul_nsi::message::{
    Criteria, Directionality, Envelope, ErrorId, Header, Message, Operation, Reserve,
};
use lighthaul_nsi::provider::Port;

use super::{Run, SECOND, reserve};

/// Returns the code of a refusal.
fn refused(answer: Message) -> ErrorId {
    let Message::Fault(why) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(why.nsa_id, "urn:p");
    why.id
}

/// Sends a reservation with other criteria.
fn reserve_with(run: &mut Run, change: impl FnOnce(&mut Criteria)) -> Message {
    let end = Timestamp(run.link.now() + 1000 * SECOND);
    let Message::Reserve(mut request) = reserve(1, end) else {
        unreachable!()
    };
    change(&mut request.criteria);
    run.ask(Message::Reserve(request))
}

/// Sends a reservation between two points.
fn reserve_between(run: &mut Run, source: &str, dest: &str) -> Message {
    reserve_with(run, |criteria| {
        let p2p = criteria.p2p.as_mut().unwrap();
        (p2p.source, p2p.dest) = (source.to_owned(), dest.to_owned());
    })
}

/// Sends a reservation of `urn:n:v`, which has one label. The times are nanoseconds from now.
fn reserve_during(run: &mut Run, start: u64, end: u64) -> Message {
    let now = run.link.now();
    reserve_with(run, |criteria| {
        "urn:n:v".clone_into(&mut criteria.p2p.as_mut().unwrap().source);
        criteria.schedule.start = Some(Timestamp(now + start));
        criteria.schedule.end = Some(Timestamp(now + end));
    })
}

#[test]
fn requests_with_a_wrong_header_are_refused() {
    let mut run = Run::new(Path::new(":memory:"));
    let good = run.header();
    let uuid = "urn:uuid:00000000-0000-4000-8000-00000000000a";
    let correlated = |correlation: &str| Header {
        correlation_id: correlation.to_owned(),
        ..good.clone()
    };
    let of = |requester: &str| Header {
        requester: requester.to_owned(),
        ..good.clone()
    };
    let to = |url: Option<&str>| Header {
        reply_to: url.map(str::to_owned),
        ..good.clone()
    };
    let other = Header {
        protocol: REQUESTER_PROTOCOL.to_owned(),
        ..good.clone()
    };
    let away = Header {
        provider: "urn:q".to_owned(),
        ..good.clone()
    };
    let wrong = [
        (other, ErrorId::VersionNotSupported),
        (away, ErrorId::UnsupportedParameter),
        (correlated(&uuid[9..]), ErrorId::Payload),
        (correlated(&uuid.replace('a', "A")), ErrorId::Payload),
        (correlated(&uuid.replace('a', "g")), ErrorId::Payload),
        (correlated(&uuid.replace('a', "")), ErrorId::Payload),
        (correlated(&format!("{uuid}0")), ErrorId::Payload),
        (correlated(&format!("{uuid}-0")), ErrorId::Payload),
        (of("urn:x"), ErrorId::Unauthorized),
        // the client has the identity of another requester
        (of("urn:q"), ErrorId::Unauthorized),
        (to(None), ErrorId::MissingParameter),
        (to(Some("http://q/x")), ErrorId::Unauthorized),
    ];
    let end = Timestamp(run.link.now() + 1000 * SECOND);
    let message = reserve(1, end);
    for (header, expected) in wrong {
        let document = Envelope::new(header, message.clone()).encode();
        assert_eq!(refused(run.send("agg", &document)), expected, "{document}");
    }
    let document = Envelope::new(good, message).encode();
    assert_eq!(refused(run.send("other", &document)), ErrorId::Unauthorized);
    assert_eq!(run.summaries(), []);
    assert!(matches!(
        run.send("agg", &document),
        Message::ReserveResponse(_)
    ));
}

#[test]
fn answers_of_a_provider_are_no_requests() {
    let mut run = Run::new(Path::new(":memory:"));
    for message in [
        Message::Acknowledgment,
        Message::Confirmed(Operation::Commit, "c".to_owned()),
        Message::ReserveResponse("c".to_owned()),
    ] {
        assert_eq!(refused(run.ask(message)), ErrorId::Payload);
    }
}

#[test]
fn connections_of_another_requester_are_hidden() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    run.operate(Operation::Commit, &id);
    run.provider.work();
    let range = Range {
        connection_id: id.clone(),
        first: None,
        last: None,
    };
    let end = Timestamp(run.link.now() + 1000 * SECOND);
    let Message::Reserve(change) = reserve(1, end) else {
        unreachable!()
    };
    let change = Reserve {
        connection_id: Some(id.clone()),
        ..*change
    };
    let mut ask = |message: Message| {
        let header = Header {
            requester: "urn:q".to_owned(),
            reply_to: Some("http://q/x".to_owned()),
            ..run.header()
        };
        run.send("other", &Envelope::new(header, message).encode())
    };
    for connection_ids in [Vec::new(), vec![id.clone()]] {
        let query = Query {
            connection_ids,
            ..Query::default()
        };
        let kind = QueryKind::SummarySync;
        let answer = ask(Message::Query(kind, query.clone()));
        assert_eq!(answer, Message::QueryConfirmed(kind, Vec::new()));
        ask(Message::Query(QueryKind::Summary, query));
    }
    let mut all: Vec<Message> = Operation::ALL
        .map(|operation| Message::Request(operation, id.clone()))
        .into();
    all.push(Message::Reserve(Box::new(change.clone())));
    for is_sync in [false, true] {
        all.push(Message::QueryNotification(is_sync, range.clone()));
        all.push(Message::QueryResult(is_sync, range.clone()));
    }
    for message in all {
        let why = refused(ask(message.clone()));
        assert_eq!(why, ErrorId::ConnectionNonexistent, "{message:?}");
    }
    // answers reach the requester that asked, and no other
    let queue = run.delivered("urn:q");
    assert_eq!(queue.len(), 2);
    for (url, envelope) in queue {
        assert_eq!(url, "http://q/x");
        let empty = Message::QueryConfirmed(QueryKind::Summary, Vec::new());
        assert_eq!(envelope.message, empty);
    }
    let names = run.delivered("urn:r");
    let names: Vec<&str> = names.iter().map(|(_, one)| one.message.name()).collect();
    assert_eq!(names, ["reserveConfirmed", "reserveCommitConfirmed"]);
    // the owner cannot change it either
    let why = refused(run.ask(Message::Reserve(Box::new(change))));
    assert_eq!(why, ErrorId::NotImplemented);
}

#[test]
fn criteria_of_an_impossible_circuit_are_refused() {
    type Change = fn(&mut Criteria);
    let mut run = Run::new(Path::new(":memory:"));
    let wrong: [(Change, ErrorId); 6] = [
        (|of| of.p2p = None, ErrorId::MissingParameter),
        (
            |of| of.service_type = Some("urn:other".to_owned()),
            ErrorId::UnsupportedParameter,
        ),
        (
            |of| of.p2p.as_mut().unwrap().capacity_mbps = 0,
            ErrorId::CapacityUnavailable,
        ),
        (
            |of| of.p2p.as_mut().unwrap().capacity_mbps = 10_000_001,
            ErrorId::CapacityUnavailable,
        ),
        (|of| of.schedule.end = None, ErrorId::MissingParameter),
        (|of| of.schedule.end = Some(Timestamp(1)), ErrorId::Payload),
    ];
    for (nth, (change, expected)) in wrong.into_iter().enumerate() {
        assert_eq!(refused(reserve_with(&mut run, change)), expected, "{nth}");
    }
    for (source, dest, expected) in [
        ("urn:n:a", "urn:n:a", ErrorId::Payload),
        ("urn:n:x", "urn:n:a", ErrorId::UnknownStp),
        ("urn:n:a?vlan=7", "urn:n:c", ErrorId::StpResolution),
        ("urn:n:v?vlan=8", "urn:n:c", ErrorId::StpResolution),
        ("urn:n:v?vlan=x", "urn:n:c", ErrorId::StpResolution),
        ("urn:n:v?color=7", "urn:n:c", ErrorId::StpResolution),
    ] {
        let why = refused(reserve_between(&mut run, source, dest));
        assert_eq!(why, expected, "{source} {dest}");
    }
    let header = run.header();
    let end = Timestamp(run.link.now() + 1000 * SECOND);
    let document = Envelope::new(header, reserve(1, end)).encode();
    let document = document.replace("<sourceSTP>", "<inclusion>x</inclusion><sourceSTP>");
    let why = refused(run.send("agg", &document));
    assert_eq!(why, ErrorId::UnsupportedParameter);
    assert_eq!(run.summaries(), []);
    let most = reserve_with(&mut run, |of| {
        of.p2p.as_mut().unwrap().capacity_mbps = 10_000_000;
    });
    assert!(matches!(most, Message::ReserveResponse(_)));
}

#[test]
fn start_that_has_just_passed_becomes_a_moment_from_now() {
    let mut run = Run::new(Path::new(":memory:"));
    let now = run.link.now();
    let soon = now + 10 * SECOND;
    let mut begin = |start: u64, end: u64| {
        let answer = reserve_with(&mut run, |of| {
            of.schedule.start = Some(Timestamp(start));
            of.schedule.end = Some(Timestamp(end));
        });
        if let Message::Fault(why) = answer {
            return Err(why.id);
        }
        run.provider.work();
        let circuit = run.link.circuits.lock().unwrap().pop().unwrap();
        Ok((circuit.start.0, circuit.end.0))
    };
    let late = ErrorId::Payload;
    assert_eq!(begin(now - 60 * SECOND, soon + 1), Ok((soon, soon + 1)));
    assert_eq!(begin(now - 60 * SECOND - 1, soon + 1), Err(late));
    assert_eq!(begin(soon - 1, soon + 1), Ok((soon, soon + 1)));
    assert_eq!(begin(soon + 1, soon + 2), Ok((soon + 1, soon + 2)));
    assert_eq!(begin(soon + 1, soon + 1), Err(late));
    assert_eq!(begin(soon - 1, soon), Err(late));
}

#[test]
fn network_is_asked_for_the_circuit_of_the_request() {
    let mut run = Run::new(Path::new(":memory:"));
    let mut ask = |is_both: bool, is_symmetric: Option<bool>, ero: &[&str]| {
        let answer = reserve_with(&mut run, |of| {
            let p2p = of.p2p.as_mut().unwrap();
            p2p.capacity_mbps = 17;
            "urn:n:w?vlan=11-12".clone_into(&mut p2p.source);
            if is_both {
                p2p.directionality = Directionality::Bidirectional;
            }
            p2p.symmetric_path = is_symmetric;
            p2p.ero = ero.iter().map(|one| (*one).to_owned()).collect();
        });
        if let Message::Fault(why) = answer {
            return Err(why.id);
        }
        run.provider.work();
        Ok(run.link.circuits.lock().unwrap().pop().unwrap())
    };
    let one = ask(false, None, &[]).unwrap();
    assert_eq!(one.rate_mbps, 17);
    let from = Port {
        node: "inner".to_owned(),
        interface: Some("eth1".to_owned()),
        packets: Some("udp 7".to_owned()),
    };
    let to = Port {
        node: "c".to_owned(),
        interface: None,
        packets: None,
    };
    assert_eq!((one.from, one.to), (from, to));
    assert!(!one.is_bidirectional && !one.is_symmetric && one.via.is_empty());
    let two = ask(true, Some(true), &["urn:n:w", "urn:n:v", "urn:n:c"]).unwrap();
    assert!(two.is_bidirectional && two.is_symmetric);
    assert_eq!(two.via, ["v"]);
    // both labels are in use, and the other faults of the route come later
    let taken = ask(true, None, &[]).map(drop);
    assert_eq!(taken, Err(ErrorId::StpUnavailable));
}

#[test]
fn route_names_points_of_the_network_without_their_labels() {
    let mut run = Run::new(Path::new(":memory:"));
    let mut via = |ero: &[&str]| {
        let answer = reserve_with(&mut run, |of| {
            let p2p = of.p2p.as_mut().unwrap();
            p2p.symmetric_path = Some(false);
            p2p.ero = ero.iter().map(|one| (*one).to_owned()).collect();
        });
        if let Message::Fault(why) = answer {
            return Err(why.id);
        }
        run.provider.work();
        let circuit = run.link.circuits.lock().unwrap().pop().unwrap();
        assert!(!circuit.is_symmetric);
        Ok(circuit.via)
    };
    let nodes = |all: &[&str]| Ok(all.iter().map(|one| (*one).to_owned()).collect());
    assert_eq!(via(&["urn:n:v", "urn:n:w"]), nodes(&["v", "inner"]));
    assert_eq!(via(&["urn:n:a", "urn:n:v"]), nodes(&["v"]));
    assert_eq!(via(&["urn:n:v", "urn:n:c"]), nodes(&["v"]));
    assert_eq!(via(&["urn:n:c", "urn:n:a"]), nodes(&["c", "a"]));
    assert_eq!(via(&["urn:n:v?vlan=7"]), Err(ErrorId::StpResolution));
    assert_eq!(via(&["urn:n:x"]), Err(ErrorId::UnknownStp));
}

#[test]
fn label_belongs_to_one_circuit_at_a_time() {
    let mut run = Run::new(Path::new(":memory:"));
    let second = SECOND;
    let is_taken = |answer: Message| {
        let is_taken = matches!(answer, Message::Fault(_));
        if is_taken {
            assert_eq!(refused(answer), ErrorId::StpUnavailable);
        }
        is_taken
    };
    assert!(!is_taken(reserve_during(
        &mut run,
        20 * second,
        30 * second
    )));
    // the next circuit begins when this one ends, and the other way around
    assert!(is_taken(reserve_during(
        &mut run,
        30 * second - 1,
        40 * second
    )));
    assert!(!is_taken(reserve_during(
        &mut run,
        30 * second,
        40 * second
    )));
    assert!(is_taken(reserve_during(
        &mut run,
        15 * second,
        20 * second + 1
    )));
    assert!(!is_taken(reserve_during(
        &mut run,
        15 * second,
        20 * second
    )));
    // it takes no part of the time of another one
    assert!(is_taken(reserve_during(&mut run, 22 * second, 25 * second)));
}

#[test]
fn circuits_take_the_free_labels_of_a_point_in_order() {
    let mut run = Run::new(Path::new(":memory:"));
    let mut label = |source: &str, dest: &str| {
        let answer = reserve_between(&mut run, source, dest);
        let Message::ReserveResponse(id) = answer else {
            return Err(refused(answer));
        };
        run.provider.work();
        let told = run.delivered("urn:r").pop().unwrap().1.message;
        let Message::ReserveConfirmed(confirmed) = told else {
            panic!("{told:?}");
        };
        assert_eq!(confirmed.connection_id, id);
        let p2p = confirmed.criteria.p2p.unwrap();
        Ok(p2p.source + " " + &p2p.dest)
    };
    let pair = |text: &str| Ok(text.to_owned());
    assert_eq!(
        label("urn:n:w?vlan=11-12", "urn:n:c"),
        pair("urn:n:w?vlan=11 urn:n:c")
    );
    assert_eq!(label("urn:n:a", "urn:n:w"), pair("urn:n:a urn:n:w?vlan=10"));
    let taken = Err(ErrorId::StpUnavailable);
    assert_eq!(label("urn:n:w?vlan=10", "urn:n:c"), taken);
    assert_eq!(label("urn:n:w", "urn:n:c"), pair("urn:n:w?vlan=12 urn:n:c"));
    assert_eq!(label("urn:n:w", "urn:n:c"), taken);
}

#[test]
fn operations_need_the_state_that_permits_them() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    let request = |operation| Message::Request(operation, id.clone());
    for operation in [Operation::Provision, Operation::Release] {
        // the circuit was not promised yet
        let why = refused(run.ask(request(operation)));
        assert_eq!(why, ErrorId::InvalidTransition);
    }
    run.operate(Operation::Commit, &id);
    let why = refused(run.ask(request(Operation::Abort)));
    assert_eq!(why, ErrorId::InvalidTransition);
    run.provider.work();
    for operation in [Operation::Commit, Operation::Abort, Operation::Release] {
        let why = refused(run.ask(request(operation)));
        assert_eq!(why, ErrorId::InvalidTransition);
    }
    run.operate(Operation::Provision, &id);
    run.operate(Operation::Terminate, &id);
    for operation in [Operation::Release, Operation::Terminate] {
        let why = refused(run.ask(request(operation)));
        assert_eq!(why, ErrorId::InvalidTransition);
    }
    run.provider.work();
    let why = refused(run.ask(request(Operation::Provision)));
    assert_eq!(why, ErrorId::ConnectionGone);
    let why = refused(run.ask(request(Operation::Terminate)));
    assert_eq!(why, ErrorId::InvalidTransition);
}

#[test]
fn correlation_of_another_request_is_refused() {
    let mut run = Run::new(Path::new(":memory:"));
    run.reserve_from("urn:n:a").unwrap();
    let (_, document) = run.last.clone().unwrap();
    let other = document.replace("<capacity>1<", "<capacity>2<");
    assert_ne!(other, document);
    assert_eq!(refused(run.send("agg", &other)), ErrorId::Payload);
    assert_eq!(run.summaries().len(), 1);
    // another requester may use it
    let theirs = document.replace("urn:r<", "urn:q<");
    let theirs = theirs.replace("http://r/x", "http://q/x");
    let answer = run.send("other", &theirs);
    assert!(matches!(answer, Message::ReserveResponse(_)), "{answer:?}");
    assert_eq!(run.summaries().len(), 1);
}
