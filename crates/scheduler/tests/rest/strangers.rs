//! Requests of unauthenticated clients, and the memory that they use.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;

use crate::test_server::{TestServer, bytes, connect_from};
use lighthaul_testkit::allowance;

/// Returns the number of series that Prometheus reads.
fn series(test_server: &TestServer) -> usize {
    let (status, _, text) = test_server.raw("GET", "/metrics", "ada", "");
    assert_eq!(status, 200);
    text.lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn unknown_methods_do_not_add_metric_series() {
    let test_server = TestServer::new();
    let mut tcp = TcpStream::connect(test_server.address).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // an authenticated client is not paced
    let mut ask = |method: &str| {
        let head = format!(
            "{method} /v1/reservations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ada\r\n\r\n"
        );
        tcp.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut some = [0; 4096];
        while !is_whole(&answer) {
            let len = tcp.read(&mut some).unwrap();
            assert!(len > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend(&some[..len]);
        }
    };
    ask("GET");
    ask("ODD");
    series(&test_server);
    let before = series(&test_server);
    (0..1000).for_each(|nth| ask(&format!("ODD{nth}")));
    assert_eq!(series(&test_server), before);
}

/// Returns true if the body of an answer is complete.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
    body.len() >= length.unwrap_or(0_usize)
}

/// Sends most of a long body from one of several addresses, and waits.
fn part_of_a_body(test_server: &TestServer, host: u8) -> TcpStream {
    let mut tcp = connect_from(host, test_server.address, None);
    let head = format!("POST /v1/quotes HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY}\r\n\r\n");
    tcp.write_all(head.as_bytes()).unwrap();
    tcp.write_all(&vec![b'x'; BODY - 4096]).unwrap();
    tcp.set_nonblocking(true).unwrap();
    tcp
}

#[test]
fn bodies_of_unauthenticated_clients_take_bounded_memory_and_delay_no_other_body() {
    let test_server = TestServer::new();
    let hosts = 2..=21_u8;
    let parts = hosts.flat_map(|host| [host; 16]);
    let mut parts: Vec<TcpStream> = parts
        .map(|host| part_of_a_body(&test_server, host))
        .collect();
    let waits = |tcp: &mut TcpStream| {
        let read = tcp.read(&mut [0; 4096]).map_err(|why| why.kind());
        read == Err(ErrorKind::WouldBlock)
    };
    let latest = Instant::ZERO + Duration::from_secs(10);
    let clock = Clock::start();
    // 8 MiB in bodies of 64 KiB each
    while parts.len() > 128 {
        assert!(clock.now() < latest, "{} bodies are held", parts.len());
        parts.retain_mut(waits);
        thread::sleep(Duration::from_millis(10));
    }
    let clock = Clock::start();
    test_server
        .client("ada")
        .reserve(&bytes(1_000_000))
        .unwrap();
    let took = clock.now().since(Instant::ZERO);
    parts.retain_mut(waits);
    let held = parts.len();
    println!("{held} bodies are held; a booking took {took:?}");
    assert!((100..=128).contains(&held), "{held} bodies are held");
    assert!(took < allowance(1), "{took:?}");
}

/// Length of a body, the longest that is accepted.
const BODY: usize = 64 << 10;
