//! Unknown clients that send requests to a scheduler and never read the responses.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_testkit::Turn;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::booking::Booking;
use crate::running::{Ends, becomes_true};

/// Prints the longest durations of `/healthz` and of bookings, and the memory of the scheduler. The bounds of a
/// build without optimization only show that every client is served, since the attack runs on the same processors.
#[test]
fn pipelining_connections_that_never_read_delay_no_client() {
    let _turn = Turn::alone();
    let booking = Booking::start("pipelining", &["--no-tls", "--questions-max", "1000"]);
    let ada = booking.token("ada", "user");
    let address: SocketAddr = booking
        .url
        .strip_prefix("http://")
        .unwrap()
        .parse()
        .unwrap();
    let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for part in 0..THREADS {
            let (is_over, sent) = (&is_over, &sent);
            scope.spawn(move || attack(address, part, is_over, sent));
        }
        let ends = Ends(&is_over);
        becomes_true("the attack has begun", || {
            sent.load(Ordering::Relaxed) > 64 << 10
        });
        let clock = Clock::start();
        let (mut health, mut booked) = (Vec::new(), Vec::new());
        for _ in 0..PROBES {
            thread::park_timeout(Duration::from_millis(100));
            let from = clock.now();
            assert_eq!(ask(address, "GET /healthz", "", ""), Some(200));
            health.push(clock.now().since(from));
            let from = clock.now();
            let body = r#"{"from":"paris","to":"milan","size":"1MB","commit":true}"#;
            assert_eq!(ask(address, "POST /v1/reservations", &ada, body), Some(201));
            booked.push(clock.now().since(from));
        }
        drop(ends);
        let memory = booking.memory();
        let (health, booked) = (longest(&health), longest(&booked));
        let sent = sent.load(Ordering::Relaxed) >> 10;
        println!(
            "{CONNECTIONS} connections sent {sent} KiB of requests; {PROBES} times /healthz within {health:?} and bookings \
             within {booked:?}, {} MiB of memory",
            memory >> 20
        );
        assert!(health <= HEALTH_MAX, "{health:?}");
        assert!(booked <= BOOKING_MAX, "{booked:?}");
        assert!(memory < 256 << 20, "{memory}");
    });
}

fn longest(times: &[Duration]) -> Duration {
    times.iter().copied().max().unwrap_or_default()
}

/// Keeps connections from many addresses full of requests, and reopens closed ones.
fn attack(address: SocketAddr, part: u8, is_over: &AtomicBool, sent: &AtomicU64) {
    let each = CONNECTIONS / usize::from(THREADS);
    let open = |nth: usize| from(Ipv4Addr::new(127, 9, part, (nth % 250 + 1) as u8), address);
    let mut connections: Vec<Option<TcpStream>> = (0..each).map(open).collect();
    let requests = ["/openapi.json", "/v1/links", "/healthz", "/metrics"]
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer y\r\n\r\n"))
        .concat()
        .repeat(8);
    while !is_over.load(Ordering::Relaxed) {
        for (nth, connection) in connections.iter_mut().enumerate() {
            let written = connection
                .as_mut()
                .map(|tcp| tcp.write(requests.as_bytes()));
            match written {
                Some(Ok(octets)) => {
                    sent.fetch_add(octets as u64, Ordering::Relaxed);
                }
                Some(Err(why)) if why.kind() == std::io::ErrorKind::WouldBlock => {}
                Some(Err(_)) | None => *connection = open(nth),
            }
        }
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// Connection from an address of this host, which may not be accepted yet.
fn from(own: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd: OwnedFd = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).ok()?;
    bind(&fd, &SocketAddrV4::new(own, 0)).ok()?;
    match connect(&fd, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Some(TcpStream::from(fd)),
        Err(_) => None,
    }
}

/// The status of an answer.
#[expect(clippy::disallowed_methods, reason = "a test calls")]
fn ask(address: SocketAddr, what: &str, token: &str, body: &str) -> Option<u16> {
    let mut tcp = TcpStream::connect(address).ok()?;
    tcp.set_read_timeout(Some(PATIENCE)).ok()?;
    let length = body.len();
    let head = format!(
        "{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    tcp.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

const CONNECTIONS: usize = 1024;
const THREADS: u8 = 4;
/// Requests of an honest client, one every tenth of a second.
const PROBES: usize = if cfg!(debug_assertions) { 6 } else { 30 };
/// Maximum durations of a check of the health and of a booking.
const HEALTH_MAX: Duration = if cfg!(debug_assertions) {
    Duration::from_secs(10)
} else {
    Duration::from_millis(100)
};
const BOOKING_MAX: Duration = if cfg!(debug_assertions) {
    PATIENCE
} else {
    Duration::from_secs(1)
};
/// Timeout of an honest client for the next octets of a response.
const PATIENCE: Duration = Duration::from_secs(20);
