//! Clients that send or read nothing for too long, or only one byte at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_scheduler::connections::Limits;

use crate::test_server::{Setup, TestServer, connect_from};

fn test_server() -> TestServer {
    TestServer::of(Setup {
        limits: Limits {
            time_limit: LIMIT,
            ..Limits::default()
        },
        ..Setup::default()
    })
}

/// Sends one byte of `rest` after another until the scheduler answers or closes. Returns its answer and
/// the duration.
fn drip(tcp: &mut TcpStream, rest: &str) -> (String, Duration) {
    let clock = Clock::start();
    tcp.set_read_timeout(Some(DRIP)).unwrap();
    let mut bytes = rest.bytes();
    let (mut answer, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let took = clock.now().since(Instant::ZERO);
        assert!(took < 5 * LIMIT, "the connection is open after {took:?}");
        match tcp.read(&mut some) {
            Ok(0) => break,
            Ok(len) => answer.extend(&some[..len]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => {
                if let Some(byte) = bytes.next() {
                    // an answer may be on its way
                    tcp.write_all(&[byte]).ok();
                }
            }
            Err(_) => break,
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer, clock.now().since(Instant::ZERO))
}

#[test]
fn incomplete_head_ends_the_connection_in_time() {
    let test_server = test_server();
    let head = "GET /healthz HTTP/1.1\r\nHost: x\r\n";
    for (sent, rest) in [
        ("", String::new()),
        (head, String::new()),
        (head, format!("X: {}", "y".repeat(1000))),
    ] {
        let mut tcp = connect_from(1, test_server.address, None);
        tcp.write_all(sent.as_bytes()).unwrap();
        let (answer, took) = drip(&mut tcp, &rest);
        assert!(!answer.contains("200 OK"), "{answer}");
        assert!(took > LIMIT / 2, "{took:?}");
    }
    assert_eq!(test_server.raw("GET", "/healthz", "", "").0, 200);
}

#[test]
fn incomplete_body_is_refused_in_time() {
    let test_server = test_server();
    let head = "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ada\r\n\
                Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
    for rest in [String::new(), " ".repeat(900)] {
        let mut tcp = connect_from(1, test_server.address, None);
        tcp.write_all(head.as_bytes()).unwrap();
        let (answer, took) = drip(&mut tcp, &rest);
        assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
        assert!(answer.contains("the request took too long"), "{answer}");
        assert!(took > LIMIT / 2, "{took:?}");
    }
}

#[test]
fn client_that_does_not_read_is_disconnected_in_time() {
    let test_server = test_server();
    let mut tcp = connect_from(1, test_server.address, Some(4096));
    tcp.set_nonblocking(true).unwrap();
    let request = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
    // the first request identifies the client, so that the others are not delayed
    let first = "GET /v1/links HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ada\r\n\r\n";
    let requests = first.to_owned() + &request.repeat(200);
    let (mut sent, clock) = (0, Clock::start());
    loop {
        let took = clock.now().since(Instant::ZERO);
        assert!(took < 10 * LIMIT, "the connection is open after {took:?}");
        let rest = requests.as_bytes().get(sent..).unwrap_or(b"");
        // when all is sent, single bytes show if the connection is open
        match tcp.write(if rest.is_empty() { b"G" } else { rest }) {
            Ok(len) => sent += len,
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        thread::park_timeout(DRIP);
    }
    assert!(clock.now() > Instant::ZERO + LIMIT / 2);
    assert_eq!(test_server.raw("GET", "/healthz", "", "").0, 200);
}

/// Timeout of the scheduler in these tests.
const LIMIT: Duration = Duration::from_secs(1);
/// Interval between two bytes of a slow client.
const DRIP: Duration = Duration::from_millis(100);
