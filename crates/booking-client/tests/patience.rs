//! Requests about jobs survive a scheduler that restarts or refuses for some time.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a server in a test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::{JobStatus, NewJob, NewReservation};

/// Answer of the server to one request.
enum Answer {
    /// None: the connection ends.
    Lost,
    /// Status and body.
    Status(u16, String),
}

/// Answers one request after the other, and returns their heads.
fn serve(answers: Vec<Answer>) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let answer = |answer| {
            let (client, _) = listener.accept().unwrap();
            reply(client, &answer)
        };
        answers.into_iter().map(answer).collect()
    });
    (url, served)
}

fn reply(mut client: TcpStream, answer: &Answer) -> String {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    if let Answer::Status(status, body) = answer {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nRetry-After: 1\r\n");
        write!(client, "{head}Connection: close\r\n\r\n{body}").unwrap();
    }
    head
}

fn job(state: &str) -> String {
    let time = "2026-11-28T10:00:00Z";
    format!(
        r#"{{"id": 7, "owner": "ada", "name": "", "state": "{state}", "command": [], "priority": 0, "attempt": 0,
        "failures": 0, "retries": 1, "at": "{time}", "submitted": "{time}", "cancel_requested": false, "text": ""}}"#
    )
}

fn problem(status: u16) -> Answer {
    let body = format!(r#"{{"type": "urn:x", "title": "t", "status": {status}, "detail": "d"}}"#);
    Answer::Status(status, body)
}

/// A proxy could read the token, and a scheduler on this host is not behind one.
#[test]
fn proxies_of_the_environment_are_not_used() {
    const CHILD: &str = "LIGHTHAUL_TEST_SCHEDULER";
    if let Ok(url) = std::env::var(CHILD) {
        assert_eq!(client(&url).job(7).unwrap().state, JobStatus::Done);
        return;
    }
    let (url, served) = serve(vec![Answer::Status(200, job("done"))]);
    // nothing listens on port 1
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "proxies_of_the_environment_are_not_used"])
        .env(CHILD, &url)
        .envs(["http_proxy", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, "http://127.0.0.1:1")))
        .status();
    if !status.unwrap().success() {
        // lets the server end
        drop(TcpStream::connect(url.trim_start_matches("http://")));
        panic!("the client has not reached the scheduler");
    }
    served.join().unwrap();
}

#[test]
fn token_for_another_host_needs_tls() {
    let open = |url: &str, token: Option<&str>| {
        let token = token.map(str::to_owned);
        Client::new(url, ServerTrust::certificate(), token).map(drop)
    };
    let url = "http://scheduler.example.org:4811";
    let refused = open(url, Some("secret")).unwrap_err();
    assert!(
        matches!(refused, ClientError::ClearText { .. }),
        "{refused}"
    );
    assert!(!refused.to_string().contains("secret"), "{refused}");
    assert!(open(url, None).is_ok());
    assert!(open("https://scheduler.example.org:4811", Some("secret")).is_ok());
    assert!(open("http://127.0.0.1:4811/", Some("secret")).is_ok());
}

fn client(url: &str) -> Client {
    Client::new(url, ServerTrust::certificate(), None).unwrap()
}

fn keys(heads: &[String]) -> Vec<&str> {
    let key = |head: &'_ String| -> Option<usize> { head.to_lowercase().find("idempotency-key: ") };
    let line = |head| key(head).map(|at| head[at..].lines().next().unwrap());
    heads.iter().filter_map(line).collect()
}

#[test]
fn submission_is_repeated_with_the_same_key() {
    let answers = vec![
        Answer::Lost,
        problem(503),
        Answer::Status(201, job("queued")),
    ];
    let (url, served) = serve(answers);
    let submitted = client(&url).submit_job(&NewJob::default()).unwrap();
    assert_eq!((submitted.id, submitted.state), (7, JobStatus::Queued));
    let heads = served.join().unwrap();
    let keys = keys(&heads);
    assert_eq!((keys.len(), keys[0]), (3, keys[2]));
}

#[test]
fn reading_is_repeated_but_a_refusal_is_not() {
    let (url, served) = serve(vec![
        problem(429),
        Answer::Lost,
        Answer::Status(200, job("done")),
    ]);
    assert_eq!(client(&url).job(7).unwrap().state, JobStatus::Done);
    served.join().unwrap();
    let (url, served) = serve(vec![problem(404)]);
    let refused = client(&url).job(7).unwrap_err();
    assert!(matches!(refused, ClientError::Problem(_)), "{refused}");
    served.join().unwrap();
}

#[test]
fn changes_are_repeated_with_the_same_key() {
    for change in [Client::cancel_job, Client::retry_job] {
        let answers = vec![Answer::Lost, Answer::Status(200, job("canceled"))];
        let (url, served) = serve(answers);
        assert_eq!(change(&client(&url), 7).unwrap().state, JobStatus::Canceled);
        let heads = served.join().unwrap();
        let keys = keys(&heads);
        assert_eq!((keys.len(), keys[0]), (2, keys[1]));
    }
    // a refusal is not repeated
    let (url, served) = serve(vec![problem(409)]);
    assert!(client(&url).cancel_job(7).is_err());
    served.join().unwrap();
}

/// A scheduler that forwards to another may lose the answer after the reservation was made.
#[test]
fn reservation_is_repeated_with_the_same_key_while_the_scheduler_is_away() {
    let time = "2026-11-28T10:00:00Z";
    let reserved = format!(
        r#"{{"id": 7, "owner": "ada", "state": "committed", "request": {{}}, "path": [], "steps": [],
        "promised_end": "{time}", "created": "{time}", "changed": "{time}", "journal": []}}"#
    );
    let answers = vec![problem(503), Answer::Lost, Answer::Status(201, reserved)];
    let (url, served) = serve(answers);
    let request = NewReservation::default();
    assert_eq!(client(&url).reserve(&request).unwrap().id, 7);
    let heads = served.join().unwrap();
    let keys = keys(&heads);
    assert_eq!((keys.len(), keys[0]), (3, keys[2]));
    // limits of the caller are reported at once
    for status in [409, 429] {
        let (url, served) = serve(vec![problem(status)]);
        client(&url).reserve(&request).unwrap_err();
        served.join().unwrap();
    }
}
