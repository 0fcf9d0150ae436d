//! Memory of responses that a client does not read.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_booking_client::json::NewReservation;
use lighthaul_io::host::clock::Clock;
use lighthaul_scheduler::connections::Limits;

use crate::test_server::{Setup, TestServer, ahead, bytes, connect_from};

/// One connection holds the memory of an identity. Each of the others needs memory for a page, waits, and
/// is refused. Few of them have a page meanwhile, because a request keeps its permit until its response
/// is counted.
#[test]
fn few_responses_of_an_identity_exist_before_memory_accounting() {
    let test_server = TestServer::of(Setup {
        limits: Limits {
            answers_bytes: 64 << 10,
            time_limit: Duration::from_mins(1),
            ..Limits::default()
        },
        ..Setup::default()
    });
    let request = NewReservation {
        start: Some(ahead(600)),
        ..bytes(1_000_000)
    };
    for _ in 0..PAGE {
        test_server.client("ada").reserve(&request).unwrap();
    }
    test_server.client("bob").reserve(&request).unwrap();
    let (status, _, page) = test_server.raw("GET", "/v1/reservations", "ada", "");
    assert_eq!(status, 200);
    assert!(page.len() > 16 << 10, "small pages are not counted");
    let _holder = hold_memory(&test_server);
    let clock = Clock::start();
    let mut asked: Vec<TcpStream> = (0..ASKED).map(|nth| ask(&test_server, nth)).collect();
    let (_, _, own) = test_server.raw("GET", "/v1/reservations", "bob", "");
    assert!(own.contains("\"bob\""), "{own}");
    // requests that wait for memory together are answered together, two seconds later
    let mut answers: Vec<String> = Vec::new();
    while answers.len() <= AT_ONCE_MAX {
        assert!(clock.now() < Instant::ZERO + PATIENCE, "{answers:?}");
        asked.retain_mut(|tcp| {
            answer(tcp).is_none_or(|text| {
                answers.push(text);
                false
            })
        });
        thread::sleep(Duration::from_millis(5));
    }
    let took = clock.now().since(Instant::ZERO);
    println!(
        "{} of {ASKED} requests were answered after {took:?}",
        answers.len()
    );
    assert!(
        answers.iter().all(|text| text == "HTTP/1.1 503"),
        "{answers:?}"
    );
    assert!(took >= 2 * WAIT, "{} after {took:?}", answers.len());
}

/// Opens a connection of ada that asks for much, and reads nothing of it. Returns once a page of ada is
/// refused.
fn hold_memory(test_server: &TestServer) -> TcpStream {
    let mut tcp = connect_from(1, test_server.address, Some(4096));
    let mut requests = head("/v1/links", "ada");
    for _ in 0..300 {
        requests += &head("/openapi.json", "ada");
    }
    tcp.set_nonblocking(true).unwrap();
    let (clock, mut sent) = (Clock::start(), 0);
    // the scheduler reads no further request while it cannot write
    loop {
        assert!(clock.now() < Instant::ZERO + PATIENCE, "all is read");
        match tcp.write(&requests.as_bytes()[sent..]) {
            Ok(len) => sent += len,
            Err(why) => assert_eq!(why.kind(), ErrorKind::WouldBlock),
        }
        if test_server.raw("GET", "/v1/reservations", "ada", "").0 == 503 {
            return tcp;
        }
    }
}

/// Asks for a page of ada from one of several addresses.
fn ask(test_server: &TestServer, nth: u8) -> TcpStream {
    let mut tcp = connect_from(2 + nth % 8, test_server.address, None);
    let request = head("/v1/reservations", "ada");
    tcp.write_all(request.as_bytes()).unwrap();
    tcp.set_nonblocking(true).unwrap();
    tcp
}

/// Returns the start of an answer if there is one.
fn answer(tcp: &mut TcpStream) -> Option<String> {
    let mut some = [0; 12];
    let len = tcp.read(&mut some).ok()?;
    Some(String::from_utf8_lossy(&some[..len]).into_owned())
}

fn head(path: &str, token: &str) -> String {
    let mut head = String::new();
    let line = "HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer";
    write!(head, "GET {path} {line} {token}\r\n\r\n").unwrap();
    head
}

/// Time limit of each part.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time that a response waits for memory.
const WAIT: Duration = Duration::from_secs(2);
/// Maximum number of requests of an identity that are answered at once.
const AT_ONCE_MAX: usize = 12;
/// Reservations of a page.
const PAGE: usize = 40;
const ASKED: u8 = 40;
