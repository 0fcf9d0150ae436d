//! Requesters with a provider that follows a script.
#![expect(clippy::disallowed_methods, reason = "a server for a test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::host::wait::pause;

use super::{Inbox, LeaseError, Requester, RequesterConfig, Step};
use crate::message::body::QueryKind;
use crate::message::name::PROVIDER_PROTOCOL;
use crate::message::query::Summary;
use crate::message::{
    ConnectionStates, Criteria, Directionality, Envelope, ErrorId, Failure, Header, Message,
    Notification, NotificationKind, Operation, P2p, Reserve, ReserveConfirmed, Schedule,
    ServiceException,
};

/// Reads the body of a request.
pub(super) fn read(tcp: &TcpStream) -> String {
    let (mut reader, mut length) = (BufReader::new(tcp), 0);
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0);
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// Answers a request, and ends the connection.
pub(super) fn respond(mut tcp: &TcpStream, status: &str, message: Message) {
    let document = Envelope::new(header("x"), message).encode();
    let length = document.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n"
    );
    tcp.write_all((head + &document).as_bytes()).unwrap();
}

/// Header of a message about the request with this correlation.
fn header(correlation_id: &str) -> Header {
    Header {
        protocol: PROVIDER_PROTOCOL.to_owned(),
        correlation_id: correlation_id.to_owned(),
        requester: "urn:r".to_owned(),
        provider: "urn:p".to_owned(),
        reply_to: None,
    }
}

/// Response of the script, and the confirmation that precedes it.
type Turn = (Option<Message>, Option<Message>);

/// Returns a requester, and a provider that takes one turn for each request and returns all requests.
fn scripted(turns: Vec<Turn>) -> (Requester, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = RequesterConfig {
        nsa: "urn:r".to_owned(),
        provider: "urn:p".to_owned(),
        url: format!("http://{}/", listener.local_addr().unwrap()),
        token: None,
        reply_to: "http://r/".to_owned(),
        step_max: Duration::from_secs(20),
    };
    let requester = Requester::new(config, ServerTrust::certificate()).unwrap();
    let inbox = requester.inbox();
    let server = thread::spawn(move || {
        let mut requests = Vec::new();
        for (response, confirmation) in turns {
            let tcp = next(&listener);
            let request = read(&tcp);
            let envelope = Envelope::decode(request.as_bytes(), 1 << 20).unwrap();
            let correlation = envelope.header.unwrap().correlation_id;
            if let Some(message) = confirmation {
                accept(&inbox, header(&correlation), message);
            }
            if let Some(message) = response {
                let is_fault = matches!(message, Message::Fault(_));
                let status = if is_fault { "500 Fault" } else { "200 OK" };
                respond(&tcp, status, message);
            }
            requests.push(request);
        }
        requests
    });
    (requester, server)
}

/// Returns the next connection, which must come within a minute.
fn next(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    for _ in 0..6000 {
        if let Ok((tcp, _)) = listener.accept() {
            tcp.set_nonblocking(false).unwrap();
            return tcp;
        }
        pause(Duration::from_millis(10));
    }
    panic!("the requester has sent too few requests");
}

fn accept(inbox: &Inbox, header: Header, message: Message) {
    let document = Envelope::new(header, message).encode();
    assert!(!inbox.accept(document.as_bytes()).is_fault);
}

fn confirmed(operation: Operation) -> Message {
    Message::Confirmed(operation, "c-1".to_owned())
}

fn why() -> ServiceException {
    ServiceException::new("urn:p", ErrorId::NoPath, "no")
}

fn refused(step: Step) -> LeaseError {
    let why = Box::new(why());
    LeaseError::Refused { step, why }
}

/// Names of the requests.
fn names(requests: &[String]) -> Vec<&'static str> {
    let read = |request: &String| Envelope::decode(request.as_bytes(), 1 << 20).unwrap();
    requests
        .iter()
        .map(|one| read(one).message.name())
        .collect()
}

fn criteria(capacity_mbps: u64) -> Criteria {
    Criteria {
        schedule: Schedule {
            start: None,
            end: Some(Timestamp(4_000_000_000_000_000_000)),
        },
        p2p: Some(P2p {
            capacity_mbps,
            directionality: Directionality::Bidirectional,
            symmetric_path: None,
            source: "urn:n:a".to_owned(),
            dest: "urn:n:c".to_owned(),
            ero: Vec::new(),
            unsupported: Vec::new(),
        }),
        ..Criteria::default()
    }
}

/// Turn that confirms a reservation with a rate.
fn reserved(capacity_mbps: u64) -> Turn {
    let confirmed = ReserveConfirmed {
        connection_id: "c-1".to_owned(),
        global_id: None,
        description: None,
        criteria: criteria(capacity_mbps),
    };
    (
        Some(Message::ReserveResponse("c-1".to_owned())),
        Some(Message::ReserveConfirmed(Box::new(confirmed))),
    )
}

fn operated(operation: Operation) -> Turn {
    (Some(Message::Acknowledgment), Some(confirmed(operation)))
}

fn reserve() -> Reserve {
    Reserve {
        criteria: criteria(10),
        ..Reserve::default()
    }
}

#[test]
fn lease_is_reserved_committed_and_provisioned() {
    let (requester, server) = scripted(vec![
        reserved(11),
        operated(Operation::Commit),
        operated(Operation::Provision),
    ]);
    let lease = requester.lease(reserve()).unwrap();
    assert_eq!(lease.connection_id, "c-1");
    assert_eq!(lease.capacity_mbps, 11);
    let requests = server.join().unwrap();
    assert_eq!(names(&requests), ["reserve", "reserveCommit", "provision"]);
}

#[test]
fn circuit_with_a_lower_rate_is_ended_before_its_commit() {
    let (requester, server) = scripted(vec![reserved(9), operated(Operation::Terminate)]);
    let why = requester.lease(reserve()).unwrap_err();
    assert_eq!(why, LeaseError::OtherCircuit("its capacity is lower"));
    assert_eq!(names(&server.join().unwrap()), ["reserve", "terminate"]);
}

#[test]
fn circuit_whose_commit_fails_is_ended() {
    let failure = Failure {
        connection_id: "c-1".to_owned(),
        states: ConnectionStates::default(),
        exception: why(),
    };
    let failed = Message::ReserveCommitFailed(Box::new(failure.clone()));
    let (requester, server) = scripted(vec![
        reserved(10),
        (Some(Message::Acknowledgment), Some(failed)),
        operated(Operation::Terminate),
    ]);
    let step = Step::Operation(Operation::Commit);
    assert_eq!(requester.lease(reserve()), Err(refused(step)));
    let requests = server.join().unwrap();
    assert_eq!(names(&requests), ["reserve", "reserveCommit", "terminate"]);

    let failed = Message::ReserveFailed(Box::new(failure));
    let (requester, server) = scripted(vec![
        (reserved(10).0, Some(failed)),
        operated(Operation::Terminate),
    ]);
    let step = Step::Reserve;
    assert_eq!(requester.lease(reserve()), Err(refused(step)));
    assert_eq!(names(&server.join().unwrap()), ["reserve", "terminate"]);
}

#[test]
fn request_without_a_response_is_sent_again_unchanged() {
    let (requester, server) = scripted(vec![
        (None, None),
        (None, None),
        operated(Operation::Release),
    ]);
    assert_eq!(requester.release("c-1"), Ok(()));
    let requests = server.join().unwrap();
    assert_eq!(requests[0], requests[1]);
    assert_eq!(requests[0], requests[2]);
}

#[test]
fn request_is_sent_three_times_at_most() {
    let (requester, server) = scripted(vec![(None, None); 3]);
    let why = requester.terminate("c-1").unwrap_err();
    assert!(matches!(why, LeaseError::Network { .. }), "{why}");
    assert_eq!(names(&server.join().unwrap()), ["terminate"; 3]);
}

#[test]
fn refusal_is_final() {
    let (requester, server) = scripted(vec![(Some(Message::Fault(Box::new(why()))), None)]);
    let step = Step::Operation(Operation::Terminate);
    assert_eq!(requester.terminate("c-1"), Err(refused(step)));
    assert_eq!(server.join().unwrap().len(), 1);
}

#[test]
fn confirmation_of_another_operation_or_connection_fails_the_step() {
    for other in [
        confirmed(Operation::Release),
        Message::Confirmed(Operation::Terminate, "c-2".to_owned()),
    ] {
        let turn = (Some(Message::Acknowledgment), Some(other));
        let (requester, server) = scripted(vec![turn]);
        let why = requester.terminate("c-1").unwrap_err();
        assert!(matches!(why, LeaseError::Protocol { .. }), "{why}");
        server.join().unwrap();
    }
}

#[test]
fn lost_confirmation_is_replaced_by_a_query() {
    let summary = Summary {
        connection_id: "c-1".to_owned(),
        global_id: None,
        description: None,
        criteria: vec![criteria(10)],
        requester: "urn:r".to_owned(),
        states: ConnectionStates::default(),
        notification_id: None,
        result_id: None,
    };
    let answer = Message::QueryConfirmed(QueryKind::SummarySync, vec![summary]);
    let turns = [Message::Acknowledgment, answer].map(|one| (Some(one), None));
    let (mut requester, server) = scripted(turns.into());
    requester.wait_at_most(Duration::from_secs(3));
    assert_eq!(requester.operate(Operation::Commit, "c-1"), Ok(()));
    let requests = server.join().unwrap();
    assert_eq!(names(&requests), ["reserveCommit", "querySummarySync"]);
    // the other connections of the requester do not matter
    assert!(requests[1].contains("<connectionId>c-1</connectionId>"));
}

#[test]
fn connection_that_the_provider_has_forgotten_counts_as_ended() {
    for (operation, is_ended) in [(Operation::Terminate, true), (Operation::Release, false)] {
        let nothing = Message::QueryConfirmed(QueryKind::SummarySync, Vec::new());
        let turns = [Message::Acknowledgment, nothing].map(|one| (Some(one), None));
        let (mut requester, server) = scripted(turns.into());
        requester.wait_at_most(Duration::from_secs(3));
        let expected = if is_ended {
            Ok(())
        } else {
            Err(LeaseError::Gone("c-1".to_owned()))
        };
        assert_eq!(requester.operate(operation, "c-1"), expected);
        server.join().unwrap();
    }
}

#[test]
fn only_the_expected_confirmation_of_the_provider_counts() {
    let inbox = Inbox::new("urn:r".to_owned(), "urn:p".to_owned());
    let now = Duration::ZERO;
    let right = header("urn:uuid:1");
    // it comes before its request
    accept(&inbox, right.clone(), confirmed(Operation::Commit));
    inbox.expect("urn:uuid:1");
    let requester = "urn:q".to_owned();
    let other = Header {
        requester,
        ..right.clone()
    };
    accept(&inbox, other, confirmed(Operation::Commit));
    let provider = "urn:q".to_owned();
    let other = Header {
        provider,
        ..right.clone()
    };
    accept(&inbox, other, confirmed(Operation::Commit));
    accept(&inbox, header("urn:uuid:2"), confirmed(Operation::Commit));
    let notification = Notification {
        connection_id: "c-1".to_owned(),
        id: 1,
        at: Timestamp(0),
        kind: NotificationKind::DeliveryTimeout {
            correlation_id: "urn:uuid:1".to_owned(),
        },
    };
    let notification = Message::Notification(Box::new(notification));
    accept(&inbox, right.clone(), notification);
    accept(&inbox, right.clone(), confirmed(Operation::Abort));
    // the first one counts
    accept(&inbox, right.clone(), confirmed(Operation::Commit));
    let taken = inbox.take("urn:uuid:1", now);
    assert_eq!(taken, Some(confirmed(Operation::Abort)));
    accept(&inbox, right, confirmed(Operation::Abort));
    assert_eq!(inbox.take("urn:uuid:1", now), None);
    assert_eq!(inbox.take("urn:uuid:2", now), None);
}

#[test]
fn unreadable_messages_are_answered_with_a_fault() {
    let inbox = Inbox::new("urn:r".to_owned(), "urn:p".to_owned());
    let fault = Envelope {
        header: None,
        message: Message::Fault(Box::new(why())),
    };
    let good = Envelope::new(header("urn:uuid:1"), Message::Acknowledgment).encode();
    let most = 64 << 10;
    let padding = |length: usize| " ".repeat(length - good.len());
    let full = format!("{good}{}", padding(most));
    assert!(!inbox.accept(full.as_bytes()).is_fault);
    let long = format!("{good}{}", padding(most + 1));
    for text in ["", "<x/>", fault.encode().as_str(), &long] {
        let reply = inbox.accept(text.as_bytes());
        assert!(reply.is_fault, "{text}");
        assert!(reply.document.contains("<nsaId>urn:r</nsaId>"));
    }
}

#[test]
fn confirmation_that_comes_while_the_requester_waits_is_taken() {
    let inbox = Arc::new(Inbox::new("urn:r".to_owned(), "urn:p".to_owned()));
    inbox.expect("urn:uuid:1");
    let sender = Arc::clone(&inbox);
    let sender = thread::spawn(move || {
        accept(&sender, header("urn:uuid:1"), confirmed(Operation::Commit));
    });
    let taken = inbox.take("urn:uuid:1", Duration::from_secs(20));
    assert_eq!(taken, Some(confirmed(Operation::Commit)));
    sender.join().unwrap();
}
