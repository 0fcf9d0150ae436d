//! Scheduler whose store does not answer, because a table of a real database is locked.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_booking::store::postgres::Postgres;
use lighthaul_io::host::clock::Clock;

use crate::database::Server;
use crate::test_server::{Setup, TestServer, connect_from};

/// One identity sends more requests than there are threads, from two addresses. They hold few threads,
/// so that others are authenticated at once.
#[test]
fn stuck_store_delays_neither_health_nor_authentication() {
    let Some(server) = Server::start() else {
        return;
    };
    let store = Postgres::open(&server.url(), "http://one").unwrap();
    let test_server = TestServer::of(Setup {
        store: Some(Box::new(store)),
        ..Setup::default()
    });
    assert!(becomes(&test_server, 200), "the store works");
    let mut lock = server.client();
    lock.batch_execute("BEGIN; LOCK TABLE books IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    let held: Vec<TcpStream> = (0..2 * PER_ADDRESS)
        .map(|nth| book(&test_server, 2 + (nth % 2) as u8))
        .collect();
    let clock = Clock::start();
    let (mut health, mut refusal) = (Duration::ZERO, Duration::ZERO);
    while clock.now() < Instant::ZERO + WATCHED {
        for host in [1, 2] {
            let from = clock.now();
            assert_eq!(ask(&test_server, host, "/healthz", ""), 200);
            health = health.max(clock.now().since(from));
        }
        let from = clock.now();
        assert_eq!(ask(&test_server, 1, "/v1/links", "nobody"), 401);
        refusal = refusal.max(clock.now().since(from));
        thread::park_timeout(Duration::from_millis(50));
    }
    println!("/healthz within {health:?}, a refusal within {refusal:?}");
    assert!(health < AT_ONCE, "{health:?}");
    assert!(refusal < AT_ONCE, "{refusal:?}");
    assert!(becomes(&test_server, 503), "the store is stuck");
    let problem = test_server.problem("GET", "/readyz", "", "");
    assert!(
        ["lock timeout", "have not been checked"]
            .iter()
            .any(|said| problem.detail.contains(said)),
        "{problem:?}"
    );
    lock.batch_execute("ROLLBACK").unwrap();
    drop(held);
    assert!(becomes(&test_server, 200), "the store works again");
}

/// Returns true if `/readyz` has this status within half a minute.
fn becomes(test_server: &TestServer, status: u16) -> bool {
    let clock = Clock::start();
    while clock.now() < Instant::ZERO + Duration::from_secs(30) {
        if ask(test_server, 1, "/readyz", "") == status {
            return true;
        }
        thread::park_timeout(Duration::from_millis(50));
    }
    false
}

/// Sends a booking of ada from an address of this host, and does not wait for the answer.
fn book(test_server: &TestServer, host: u8) -> TcpStream {
    let body = r#"{"from":"a","to":"c","size":1000000,"commit":true}"#;
    let mut tcp = connect_from(host, test_server.address, None);
    let length = body.len();
    let request = format!(
        "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ada\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    tcp.write_all(request.as_bytes()).unwrap();
    tcp
}

/// Returns the status of an answer.
fn ask(test_server: &TestServer, host: u8, path: &str, token: &str) -> u16 {
    let mut tcp = connect_from(host, test_server.address, None);
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    tcp.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Bookings from each address: together more than there are threads.
const PER_ADDRESS: usize = 24;
/// Less than the lock timeout of the store, so that it is stuck all the time.
const WATCHED: Duration = Duration::from_secs(2);
const AT_ONCE: Duration = Duration::from_secs(1);
