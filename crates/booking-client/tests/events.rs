//! Events arrive once each, although connections are lost and requests are refused.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a server in a test")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::https::ServerTrust;

/// Answers one connection after the other with these texts, and returns the heads of the requests.
fn serve(answers: Vec<String>) -> (Client, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let answer = |answer: String| {
            let (mut client, _) = listener.accept().unwrap();
            let mut head = String::new();
            for line in BufReader::new(client.try_clone().unwrap()).lines() {
                let line = line.unwrap();
                if line.is_empty() {
                    break;
                }
                head = head + &line.to_lowercase() + "\n";
            }
            client.write_all(answer.as_bytes()).unwrap();
            head
        };
        answers.into_iter().map(answer).collect()
    });
    let client = Client::new(&url, ServerTrust::certificate(), None).unwrap();
    (client, served)
}

fn events(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{body}")
}

fn refusal(status: u16) -> String {
    let body = format!(r#"{{"type": "urn:x", "title": "t", "status": {status}, "detail": "d"}}"#);
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

fn event(seq: u64) -> String {
    let time = "2026-11-28T10:00:00Z";
    let data = format!(
        r#"{{"seq": {seq}, "at": "{time}", "kind": "changed", "who": "ada", "why": "", "reservation": {{
        "id": 7, "owner": "ada", "state": "committed", "request": {{}}, "path": [], "steps": [], "promised_end": "{time}",
        "journal": [], "created": "{time}", "changed": "{time}"}}}}"#
    );
    format!(
        "id: {seq}\nevent: changed\ndata: {}\n\n",
        data.replace('\n', "")
    )
}

/// Returns the numbers after which the requests continue.
fn asked(heads: &[String]) -> Vec<Option<&str>> {
    let number = |head: &'_ String| head.find("last-event-id: ").map(|at| at + 15);
    let line = |head| number(head).map(|at| head[at..].lines().next().unwrap());
    heads.iter().map(line).collect()
}

#[test]
fn lost_connections_lose_and_repeat_no_event() {
    let seven = event(7);
    let (client, served) = serve(vec![
        // the present number, and then the connection is lost
        events("id: 5\n\n: still here\n\n"),
        // lost within an event, whose number has arrived
        events(&(event(6) + &seven[..seven.len() / 2])),
        refusal(503),
        events(&(event(6) + &seven)),
        // a number without an event: there were only events of others
        events("id: 9\n\n"),
        events(&event(10)),
        refusal(401),
    ]);
    let mut found = client.follow_reservations(None).unwrap();
    let seen: Vec<u64> = found
        .by_ref()
        .take(3)
        .map(|event| event.unwrap().seq)
        .collect();
    assert_eq!(seen, [6, 7, 10]);
    let refused = found.next().unwrap().unwrap_err();
    assert!(matches!(refused, ClientError::Problem(_)), "{refused}");
    assert!(found.next().is_none());
    let heads = served.join().unwrap();
    let expected = [
        None,
        Some("5"),
        Some("6"),
        Some("6"),
        Some("7"),
        Some("9"),
        Some("10"),
    ];
    assert_eq!(asked(&heads), expected);
}

/// The connection is lost before the first number, and after it with no event.
#[test]
fn events_from_now_on_begin_with_the_call() {
    let (client, served) = serve(vec![
        events(""),
        events("id: 5"),
        events("id: 5\n"),
        events(&event(6)),
        refusal(401),
    ]);
    let mut found = client.follow_reservations(None).unwrap();
    assert_eq!(found.next().unwrap().unwrap().seq, 6);
    assert!(found.next().unwrap().is_err());
    let heads = served.join().unwrap();
    assert_eq!(asked(&heads[..4]), [None, None, None, Some("5")]);
}

#[test]
fn each_event_and_the_end_are_noticed() {
    let (client, served) = serve(vec![events(&(event(1) + &event(2))), refusal(401)]);
    let found = client.follow_reservations(Some(0)).unwrap();
    let (told, notices) = mpsc::channel();
    found
        .notice()
        .set(move || told.send(()).unwrap_or_default());
    let mut seen = Vec::new();
    loop {
        match found.next_within(Duration::ZERO) {
            Poll::Ready(Some(event)) => seen.push(event.map(|event| event.seq).ok()),
            Poll::Ready(None) => break,
            Poll::Pending => notices.recv_timeout(Duration::from_mins(1)).unwrap(),
        }
    }
    assert_eq!(seen, [Some(1), Some(2), None]);
    served.join().unwrap();
}

#[test]
fn events_of_a_job_end_with_it() {
    let of = |events: &[(u64, &str)]| {
        let event = |(seq, state): &(u64, &str)| {
            format!(
                r#"{{"seq": {seq}, "at": "2026-11-28T10:00:00Z", "attempt": 1, "state": "{state}", "text": ""}}"#
            )
        };
        let all: Vec<String> = events.iter().map(event).collect();
        let body = format!("[{}]", all.join(","));
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
    };
    let (client, served) = serve(vec![
        of(&[(1, "queued"), (2, "running")]),
        String::new(),
        of(&[(1, "queued"), (2, "running"), (3, "done")]),
    ]);
    let found = client.follow_job(7, 1).unwrap();
    let seen: Vec<u64> = found.map(|event| event.unwrap().seq).collect();
    assert_eq!(seen, [2, 3]);
    assert_eq!(served.join().unwrap().len(), 3);
}

#[test]
fn wait_for_an_event_has_a_limit() {
    let (client, served) = serve(vec![events(&event(1)), refusal(401)]);
    let found = client.follow_reservations(Some(0)).unwrap();
    let within = |time| match found.next_within(time) {
        Poll::Ready(event) => event.map(|event| event.map(|event| event.seq).ok()),
        Poll::Pending => Some(Some(0)),
    };
    assert_eq!(within(Duration::from_mins(1)), Some(Some(1)));
    assert_eq!(within(Duration::from_mins(1)), Some(None));
    assert_eq!(within(Duration::from_mins(1)), None);
    served.join().unwrap();
}
