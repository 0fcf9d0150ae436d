//! The one page of a daemon: `/metrics` over HTTP/1.1, a scraper at a time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::tcp;
use tracing::debug;

use crate::metrics::Metrics;

/// Answers scrapers at `address` until the process ends, and says where that is.
pub(crate) fn start(address: SocketAddr, metrics: Arc<Metrics>) -> io::Result<SocketAddr> {
    let listener = tcp::listen(address)?;
    let address = listener.local_addr()?;
    thread::Builder::new()
        .name("metrics".into())
        .spawn(move || run(&listener, &metrics))?;
    Ok(address)
}

fn run(listener: &TcpListener, metrics: &Metrics) {
    loop {
        let answered = listener.accept().and_then(|(tcp, _)| answer(tcp, metrics));
        if let Err(error) = answered {
            debug!("a scraper was not answered: {error}");
            thread::park_timeout(BREATH);
        }
    }
}

/// Answers one request, and closes.
fn answer(mut tcp: TcpStream, metrics: &Metrics) -> io::Result<()> {
    tcp.set_write_timeout(Some(PATIENCE))?;
    tcp::pace_where_far(&tcp);
    let request = request(&mut tcp)?;
    let mut words = request.split(' ');
    let (status, page) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => ("200 OK", metrics.print().map_err(io::Error::other)?),
        (Some("GET"), Some(_)) => ("404 Not Found", "look at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {KIND}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    tcp.write_all(head.as_bytes())?;
    tcp.write_all(page.as_bytes())
}

/// The first line of a request, once all of its head is here, so that closing takes nothing back.
fn request(tcp: &mut TcpStream) -> io::Result<String> {
    let clock = Clock::start();
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = clock.until(Instant::ZERO + PATIENCE);
        if left.is_zero() || head.len() >= HEAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        tcp.set_read_timeout(Some(left))?;
        let mut some = [0; 1024];
        match tcp.read(&mut some)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => head.extend_from_slice(&some[..len]),
        }
    }
    let line = head.split(|octet| *octet == b'\r').next();
    Ok(String::from_utf8_lossy(line.unwrap_or_default()).into_owned())
}

/// What the page is written in.
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a scraper may take to ask, and again to listen.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest head of a request.
const HEAD_MAX: usize = 8 << 10;
/// How long to wait after a failure, since the next may come at once.
const BREATH: Duration = Duration::from_millis(20);
