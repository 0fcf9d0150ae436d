//! Messages to a requester that does not answer for a while.

use std::path::Path;
use std::sync::Arc;

use lighthaul_nsi::message::body::QueryKind;
use lighthaul_nsi::message::query::{Query, Range};
use lighthaul_nsi::message::{Envelope, Header, Message, NotificationKind, Operation};

use super::{CONFIG, Run, open_with};

#[test]
fn message_that_is_given_up_is_reported_once_the_requester_answers() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    // no delivery succeeds
    let mut tried: Vec<String> = Vec::new();
    for _ in 0..200 {
        run.provider.deliver("urn:r", |outgoing| {
            tried.push(outgoing.name.clone());
            Err("it does not answer".to_owned())
        });
        run.pass(40);
    }
    let count = |name: &str| tried.iter().filter(|one| *one == name).count();
    assert_eq!(count("reserveConfirmed"), 8, "{tried:?}");
    // the report is given up too, and no report follows about it
    assert_eq!(count("messageDeliveryTimeout"), 8, "{tried:?}");
    assert_eq!(tried.len(), 16, "{tried:?}");

    run.operate(Operation::Terminate, &id);
    let (terminate, _) = run.last.clone().unwrap();
    run.provider.work();
    for _ in 0..8 {
        run.provider
            .deliver("urn:r", |_| Err("it does not answer".to_owned()));
        run.pass(40);
    }
    let mut told = Vec::new();
    run.provider.deliver("urn:r", |outgoing| {
        let document = outgoing.document.as_bytes();
        told.push(Envelope::decode(document, 1 << 20).unwrap().message);
        Ok(())
    });
    let [Message::Notification(told)] = told.as_slice() else {
        panic!("{told:?}");
    };
    let correlation_id = terminate;
    assert_eq!(told.connection_id, id);
    assert_eq!(
        told.kind,
        NotificationKind::DeliveryTimeout { correlation_id }
    );
}

#[test]
fn message_evicted_from_a_full_queue_is_noted() {
    let mut run = Run::new(Path::new(":memory:"));
    let first = run.reserve_from("urn:n:a").unwrap();
    let (correlation_id, _) = run.last.clone().unwrap();
    run.provider.work();
    fill(&mut run);
    assert_eq!(kinds(&mut run, &first), []);
    let second = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    let expected = NotificationKind::DeliveryTimeout { correlation_id };
    assert_eq!(kinds(&mut run, &first), [expected]);
    assert_eq!(kinds(&mut run, &second), []);
    // the rest is delivered in its order
    let mut told = Vec::new();
    for _ in 0..11 {
        run.provider.deliver("urn:r", |outgoing| {
            told.push(outgoing.name.clone());
            Ok(())
        });
    }
    assert_eq!(told.len(), 1000);
    assert_eq!(told[0], "querySummaryConfirmed");
    assert_eq!(told[999], "reserveConfirmed");
}

#[test]
fn messages_of_one_step_evict_as_many_from_a_full_queue() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.messages();
    for operation in [Operation::Commit, Operation::Provision] {
        run.operate(operation, &id);
        run.messages();
    }
    // 999 messages wait, beside one for another requester
    let header = Header {
        requester: "urn:q".to_owned(),
        reply_to: Some("http://q/x".to_owned()),
        ..run.header()
    };
    let asked = run.send("other", &Envelope::new(header, summary()).encode());
    assert_eq!(asked, Message::Acknowledgment);
    fill(&mut run);
    run.operate(Operation::Terminate, &id);
    run.provider.work();
    let mut told = Vec::new();
    let mut deliver = || {
        run.provider.deliver("urn:r", |outgoing| {
            told.push(outgoing.name.clone());
            Ok(())
        });
        told.len()
    };
    // one call delivers a hundred at most
    for nth in 1..=10 {
        assert_eq!(deliver(), 100 * nth);
    }
    assert_eq!(deliver(), 1000);
    let last = ["dataPlaneStateChange", "terminateConfirmed"];
    assert_eq!(told[998..], last);
    assert_eq!(run.delivered("urn:q").len(), 1);
}

/// Fills a queue in which one message waits with answers to queries of no connection.
fn fill(run: &mut Run) {
    for _ in 1..1000 {
        let asked = run.ask(summary());
        assert_eq!(asked, Message::Acknowledgment);
    }
}

/// Returns the notifications of a connection.
fn kinds(run: &mut Run, id: &str) -> Vec<NotificationKind> {
    let range = Range {
        connection_id: id.to_owned(),
        first: None,
        last: None,
    };
    let answer = run.ask(Message::QueryNotification(true, range));
    let Message::QueryNotificationConfirmed(_, all) = answer else {
        panic!("{answer:?}");
    };
    all.into_iter().map(|one| one.kind).collect()
}

fn summary() -> Message {
    let query = Query {
        connection_ids: vec!["none".to_owned()],
        ..Query::default()
    };
    Message::Query(QueryKind::Summary, query)
}

#[test]
fn message_that_is_being_sent_is_not_evicted() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    fill(&mut run);
    let provider = Arc::clone(&run.provider);
    let mut told = Vec::new();
    let was_tried = provider.deliver_next("urn:r", |outgoing| {
        told.push(outgoing.name.clone());
        // it makes room in the full queue
        assert_eq!(run.ask(summary()), Message::Acknowledgment);
        Err("it does not answer".to_owned())
    });
    assert!(was_tried);
    run.pass(40);
    for _ in 0..11 {
        run.provider.deliver("urn:r", |outgoing| {
            told.push(outgoing.name.clone());
            Ok(())
        });
    }
    // the failed message is repeated, and only the one after it was given up
    assert_eq!(kinds(&mut run, &id), []);
    assert_eq!(told.len(), 1001);
    assert_eq!(told[..2], ["reserveConfirmed"; 2]);
    assert_eq!(told[2], "querySummaryConfirmed");
}

#[test]
fn request_that_is_repeated_while_its_confirmation_arrives_is_confirmed_again() {
    let mut run = Run::new(Path::new(":memory:"));
    run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    let (_, request) = run.last.clone().unwrap();
    let repeat = || assert!(!run.provider.answer("agg", request.as_bytes()).is_fault);
    let mut told = Vec::new();
    run.provider.deliver_next("urn:r", |outgoing| {
        told.push(outgoing.name.clone());
        // the requester has the message, and repeats its request before the delivery returns
        repeat();
        repeat();
        Ok(())
    });
    run.provider.deliver("urn:r", |outgoing| {
        told.push(outgoing.name.clone());
        Ok(())
    });
    assert_eq!(told, ["reserveConfirmed"; 2]);
}

#[test]
fn message_to_a_place_that_is_permitted_no_longer_is_given_up_at_once() {
    let path = format!("moved-{}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(path);
    let mut run = Run::new(&path);
    let id = run.reserve_from("urn:n:a").unwrap();
    let (correlation_id, _) = run.last.clone().unwrap();
    run.provider.work();
    run.provider = open_with(CONFIG, Path::new(":memory:"), &run.link).unwrap();
    let config = CONFIG.replace("'http://r/'", "'http://r/y/'");
    run.provider = open_with(&config, &path, &run.link).unwrap();
    for _ in 0..2 {
        run.provider
            .deliver("urn:r", |outgoing| panic!("{outgoing:?}"));
    }
    assert_eq!(run.provider.outgoing("urn:r"), None);
    let expected = NotificationKind::DeliveryTimeout { correlation_id };
    // the report was to go there, too
    let kinds = kinds(&mut run, &id);
    assert_eq!((kinds.len(), &kinds[0]), (2, &expected));
    drop(run);
    for end in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{end}", path.display())).ok();
    }
}

/// Asks for the answer to a query at a URL of the requester.
fn query_from(run: &mut Run, url: &str) {
    let header = Header {
        reply_to: Some(url.to_owned()),
        ..run.header()
    };
    let asked = run.send("agg", &Envelope::new(header, summary()).encode());
    assert_eq!(asked, Message::Acknowledgment);
}

/// Sends the message that is next, and returns its URL, if there is one.
fn send_next(run: &Run, is_delivered: bool) -> Option<String> {
    let mut url = None;
    run.provider.deliver_next("urn:r", |outgoing| {
        url = Some(outgoing.url.clone());
        let sent = is_delivered.then_some(());
        sent.ok_or_else(|| "it does not answer".to_owned())
    });
    url
}

#[test]
fn silent_url_delays_no_other_url_of_its_requester() {
    let mut run = Run::new(Path::new(":memory:"));
    for nth in ["silent", "silent", "well", "well"] {
        query_from(&mut run, &format!("http://r/{nth}"));
    }
    let mut told = Vec::new();
    run.provider.deliver_next("urn:r", |outgoing| {
        assert_eq!(outgoing.url, "http://r/silent");
        // while this message is being sent, the other URL receives its messages, and this URL no further one
        while let Some(url) = send_next(&run, true) {
            told.push(url);
        }
        Err("it does not answer".to_owned())
    });
    assert_eq!(told, ["http://r/well"; 2]);
    run.pass(40);
    assert_eq!(send_next(&run, true).as_deref(), Some("http://r/silent"));
}

#[test]
fn url_that_answers_has_a_lane_although_many_others_are_silent() {
    let mut run = Run::new(Path::new(":memory:"));
    let silent: Vec<String> = (0..9).map(|nth| format!("http://r/{nth}")).collect();
    for url in &silent {
        query_from(&mut run, url);
    }
    for url in &silent {
        assert_eq!(send_next(&run, false).as_ref(), Some(url));
    }
    assert_eq!(send_next(&run, false), None);
    run.pass(40);
    let provider = Arc::clone(&run.provider);
    let away = || Err("it does not answer".to_owned());
    let mut sent = Vec::new();
    // each of these deliveries lasts as long as those that it contains
    provider.deliver_next("urn:r", |_| {
        provider.deliver_next("urn:r", |_| {
            provider.deliver_next("urn:r", |_| {
                sent.push(send_next(&run, false));
                query_from(&mut run, "http://r/well");
                sent.push(send_next(&run, true));
                away()
            });
            away()
        });
        away()
    });
    assert_eq!(sent, [None, Some("http://r/well".to_owned())]);
}

#[test]
fn url_with_the_most_messages_makes_room_in_a_full_queue() {
    let mut run = Run::new(Path::new(":memory:"));
    query_from(&mut run, "http://r/well");
    for _ in 0..1100 {
        query_from(&mut run, "http://r/silent");
    }
    let mut told = Vec::new();
    while run.provider.deliver_next("urn:r", |outgoing| {
        told.push(outgoing.url.clone());
        Ok(())
    }) {}
    assert_eq!(told.len(), 1000);
    assert_eq!(told[0], "http://r/well");
}

#[test]
fn message_is_given_up_at_its_first_failure_after_ten_minutes() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    let (correlation_id, _) = run.last.clone().unwrap();
    for seconds in [0, 300, 299] {
        run.pass(seconds);
        assert!(send_next(&run, false).is_some());
        assert_eq!(kinds(&mut run, &id), []);
    }
    run.pass(1);
    // the pause after a failure has not passed
    assert_eq!(send_next(&run, false), None);
    run.pass(40);
    assert!(send_next(&run, false).is_some());
    let expected = NotificationKind::DeliveryTimeout { correlation_id };
    assert_eq!(kinds(&mut run, &id), [expected]);
}
