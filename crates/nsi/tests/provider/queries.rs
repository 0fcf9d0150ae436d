//! Queries of connections, notifications and results.

use std::path::Path;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_nsi::message::body::QueryKind;
use lighthaul_nsi::message::query::{Query, Range};
use lighthaul_nsi::message::{Envelope, ErrorId, Header, Message, Operation};

use super::{Run, SECOND, reserve};

impl Run {
    /// Returns a new reservation with a name of the requester.
    fn named(&mut self, global_id: &str) -> String {
        let end = Timestamp(self.link.now() + 1000 * SECOND);
        let Message::Reserve(mut request) = reserve(1, end) else {
            unreachable!()
        };
        request.global_id = Some(global_id.to_owned());
        request.description = Some(format!("for {global_id}"));
        let answer = self.ask(Message::Reserve(request));
        let Message::ReserveResponse(id) = answer else {
            panic!("{answer:?}");
        };
        id
    }

    /// Returns the connections that a query selects, in the order of their IDs.
    fn selected(&mut self, query: Query) -> Vec<String> {
        let answer = self.ask(Message::Query(QueryKind::SummarySync, query));
        let Message::QueryConfirmed(_, all) = answer else {
            panic!("{answer:?}");
        };
        all.into_iter().map(|one| one.connection_id).collect()
    }
}

fn sorted<const N: usize>(ids: [&String; N]) -> Vec<String> {
    let mut ids: Vec<String> = ids.into_iter().cloned().collect();
    ids.sort();
    ids
}

#[test]
fn connections_are_selected_by_either_name_and_by_their_last_change() {
    let mut run = Run::new(Path::new(":memory:"));
    let one = run.named("g-1");
    run.provider.work();
    run.pass(1);
    let two = run.named("g-2");
    let three = run.named("g-3");
    let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
    let query = |ids: &[&str], names: &[&str]| Query {
        connection_ids: texts(ids),
        global_ids: texts(names),
        modified_since: None,
    };
    assert_eq!(run.selected(query(&[], &[])), sorted([&one, &two, &three]));
    assert_eq!(run.selected(query(&[&one], &[])), sorted([&one]));
    assert_eq!(run.selected(query(&[], &["g-2"])), sorted([&two]));
    let both = run.selected(query(&[&one], &["g-2", "g-9"]));
    assert_eq!(both, sorted([&one, &two]));
    assert_eq!(run.selected(query(&["none"], &[])), [""; 0]);
    let now = run.link.now();
    let mut since = |nanos: u64, names: &[&str]| {
        run.selected(Query {
            modified_since: Some(Timestamp(nanos)),
            ..query(&[], names)
        })
    };
    assert_eq!(since(now, &[]), sorted([&two, &three]));
    assert_eq!(since(now + 1, &[]), [""; 0]);
    assert_eq!(since(now - SECOND, &[]), sorted([&one, &two, &three]));
    assert_eq!(since(now, &["g-1"]), [""; 0]);
    assert_eq!(since(now, &["g-3"]), sorted([&three]));
}

#[test]
fn summary_shows_what_was_committed_and_the_last_numbers() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.named("g-1");
    let summary = run.summaries().remove(0);
    assert_eq!(summary.criteria, []);
    assert_eq!((summary.notification_id, summary.result_id), (None, None));
    run.messages();
    run.operate(Operation::Commit, &id);
    run.messages();
    run.operate(Operation::Provision, &id);
    run.messages();
    let summary = run.summaries().remove(0);
    assert_eq!(summary.connection_id, id);
    assert_eq!(summary.global_id.as_deref(), Some("g-1"));
    assert_eq!(summary.description.as_deref(), Some("for g-1"));
    assert_eq!(summary.requester, "urn:r");
    assert_eq!(summary.criteria.len(), 1);
    let numbers = (summary.notification_id, summary.result_id);
    assert_eq!(numbers, (Some(1), Some(3)));
}

#[test]
fn notifications_and_results_are_listed_by_their_numbers() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.named("g-1");
    run.messages();
    for operation in [Operation::Commit, Operation::Provision, Operation::Release] {
        run.operate(operation, &id);
        run.messages();
    }
    let range = |first: Option<u64>, last: Option<u64>| Range {
        connection_id: id.clone(),
        first,
        last,
    };
    let names = [
        "reserveConfirmed",
        "reserveCommitConfirmed",
        "provisionConfirmed",
        "releaseConfirmed",
    ];
    for (first, last, from, till) in [
        (None, None, 0, 4),
        (Some(2), None, 1, 4),
        (None, Some(2), 0, 2),
        (Some(2), Some(3), 1, 3),
        (Some(5), None, 4, 4),
    ] {
        let answer = run.ask(Message::QueryResult(true, range(first, last)));
        let Message::QueryResultConfirmed(true, all) = answer else {
            panic!("{answer:?}");
        };
        let found: Vec<(u64, &str)> = all.iter().map(|one| (one.id, one.message.name())).collect();
        let expected = (from + 1..).zip(names[from as usize..till].iter().copied());
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
    // of the data plane, which was active once
    for (first, last, numbers) in [
        (None, None, vec![1, 2]),
        (Some(2), None, vec![2]),
        (None, Some(1), vec![1]),
        (Some(3), None, vec![]),
    ] {
        let answer = run.ask(Message::QueryNotification(true, range(first, last)));
        let Message::QueryNotificationConfirmed(true, all) = answer else {
            panic!("{answer:?}");
        };
        let found: Vec<u64> = all.iter().map(|one| one.id).collect();
        assert_eq!(found, numbers);
    }
}

#[test]
fn queries_that_want_a_message_are_answered_in_one() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.named("g-1");
    run.messages();
    let range = Range {
        connection_id: id,
        first: None,
        last: None,
    };
    let queries = [
        Message::Query(QueryKind::Summary, Query::default()),
        Message::Query(QueryKind::Recursive, Query::default()),
        Message::QueryNotification(false, range.clone()),
        Message::QueryResult(false, range),
    ];
    for query in queries.clone() {
        let header = Header {
            reply_to: None,
            ..run.header()
        };
        let answer = run.send("agg", &Envelope::new(header, query.clone()).encode());
        let Message::Fault(why) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(why.id, ErrorId::MissingParameter);
        assert_eq!(run.ask(query), Message::Acknowledgment);
    }
    let told = run.delivered("urn:r");
    let names: Vec<&str> = told.iter().map(|(_, one)| one.message.name()).collect();
    let expected = queries.map(|query| format!("{}Confirmed", query.name()));
    assert_eq!(names, expected);
    for (nth, (url, envelope)) in told.into_iter().enumerate() {
        assert_eq!(url, "http://r/x");
        let header = envelope.header.unwrap();
        // the reservation is request 1, and of the queries each second one had an address
        let number = 3 + 2 * nth;
        let correlation = format!("urn:uuid:00000000-0000-4000-8000-{number:012x}");
        assert_eq!(header.correlation_id, correlation);
    }
}
