//! HTTP/1.1 server for `/metrics`, on one thread that does not block on any client. [`start`] takes any
//! [`MetricsPage`].
//!
//! ```text
//! accept -> silent -> whole request -> response written -> closed
//! ```
//!
//! If there is no room, the oldest silent connection of the largest site is closed before those with a whole request.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::poller::Poller;
use lighthaul_io::net::tcp;
use tracing::debug;

use crate::scrape_request::ScrapeRequest;

/// Source of the text that scrapers read.
pub trait MetricsPage: fmt::Debug + Send + Sync {
    /// Returns all metrics in the format of `OpenMetrics`.
    fn page(&self) -> Result<String, fmt::Error>;
}

/// Serves scrapers at `address` until the process ends. Returns the address of the listener.
pub fn start(address: SocketAddr, metrics: Arc<dyn MetricsPage>) -> io::Result<SocketAddr> {
    let listener = tcp::listen(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let poller = Poller::new()?;
    poller.add(&listener, LISTENER)?;
    let scrapers = Scrapers {
        poller,
        metrics,
        clock: Clock::start(),
        here: BTreeMap::new(),
        next: LISTENER + 1,
    };
    thread::Builder::new()
        .name("metrics".into())
        .spawn(move || scrapers.run(&listener))?;
    Ok(address)
}

/// Connections of scrapers.
#[derive(Debug)]
struct Scrapers {
    poller: Poller,
    metrics: Arc<dyn MetricsPage>,
    clock: Clock,
    /// Connections by number; a lower number came earlier.
    here: BTreeMap<u64, Scraper>,
    next: u64,
}

#[derive(Debug)]
struct Scraper {
    tcp: TcpStream,
    from: IpAddr,
    until: Instant,
    /// Received part of the request.
    request: Vec<u8>,
    /// Rest of the response, once the request is whole.
    answer: Option<Vec<u8>>,
}

impl Scraper {
    fn host(&self) -> Prefix {
        Prefix::host(self.from)
    }

    fn site(&self) -> Prefix {
        Prefix::all(self.from)[2]
    }
}

impl Scrapers {
    fn run(mut self, listener: &TcpListener) {
        loop {
            if let Err(error) = self.turn(listener) {
                debug!("cannot serve a scraper: {error}");
                thread::park_timeout(ERROR_PAUSE);
            }
        }
    }

    fn turn(&mut self, listener: &TcpListener) -> io::Result<()> {
        let mut result = Ok(());
        for ready in self.poller.wait(CHECK_INTERVAL)? {
            if ready.token == LISTENER {
                result = self.accept(listener);
            } else {
                self.serve(ready.token);
            }
        }
        let now = self.clock.now();
        self.here.retain(|_, scraper| scraper.until > now);
        result
    }

    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        for _ in 0..ACCEPTS_MAX {
            match listener.accept() {
                Ok((tcp, from)) => self.enter(tcp, from.ip()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // the client has closed the connection
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn enter(&mut self, tcp: TcpStream, from: IpAddr) {
        if let Some(number) = self.in_the_way(from) {
            self.here.remove(&number);
        }
        let number = self.next;
        self.next += 1;
        tcp::pace_where_far(&tcp);
        let watched = tcp.set_nonblocking(true);
        if watched
            .and_then(|()| self.poller.add(&tcp, number))
            .is_err()
        {
            return;
        }
        let scraper = Scraper {
            tcp,
            from,
            until: self.clock.now() + TIMEOUT,
            request: Vec::new(),
            answer: None,
        };
        self.here.insert(number, scraper);
    }

    /// Returns the connection to close for a new one from `address`, if necessary.
    fn in_the_way(&self, address: IpAddr) -> Option<u64> {
        let host = Prefix::host(address);
        let of_host = || {
            self.here
                .iter()
                .filter(|(_, scraper)| scraper.host() == host)
        };
        let mut sites: BTreeMap<Prefix, usize> = BTreeMap::new();
        for scraper in self.here.values() {
            *sites.entry(scraper.site()).or_default() += 1;
        }
        let order = |(number, scraper): &(&u64, &Scraper)| {
            let count = sites.get(&scraper.site()).copied();
            (scraper.answer.is_some(), Reverse(count), **number)
        };
        let leaves = if of_host().count() >= HOST_MAX {
            of_host().min_by_key(order)
        } else if self.here.len() >= SCRAPERS_MAX {
            self.here.iter().min_by_key(order)
        } else {
            None
        };
        leaves.map(|(number, _)| *number)
    }

    /// Continues a connection that has sent data, or that can take more of its response.
    fn serve(&mut self, number: u64) {
        let Some(scraper) = self.here.get_mut(&number) else {
            return;
        };
        let now = self.clock.now();
        let answered = if scraper.answer.is_some() {
            scraper.write()
        } else {
            scraper.read().and_then(|whole| {
                if !whole {
                    return Ok(false);
                }
                scraper.until = now + TIMEOUT;
                let request = ScrapeRequest::of(&scraper.request);
                scraper.answer = Some(answer(request, &*self.metrics)?);
                self.poller.await_room(&scraper.tcp, number)?;
                scraper.write()
            })
        };
        match answered {
            Ok(false) => {}
            Ok(true) => {
                self.here.remove(&number);
            }
            Err(error) => {
                debug!("cannot serve the scraper {}: {error}", scraper.from);
                self.here.remove(&number);
            }
        }
    }
}

impl Scraper {
    /// Reads the received data. Returns true once the head of the request is whole: unread data would reset the
    /// connection at its end.
    fn read(&mut self) -> io::Result<bool> {
        let mut some = [0; 1024];
        loop {
            match self.tcp.read(&mut some) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.request.extend_from_slice(&some[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.request.windows(4).any(|end| end == b"\r\n\r\n") {
                return Ok(true);
            }
            if self.request.len() >= HEAD_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }

    /// Writes as much of the response as TCP takes. Returns true at the end.
    fn write(&mut self) -> io::Result<bool> {
        let Some(answer) = &mut self.answer else {
            return Ok(false);
        };
        while !answer.is_empty() {
            match self.tcp.write(answer) {
                Ok(len) => {
                    answer.drain(..len);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Returns the response to a request.
fn answer(request: ScrapeRequest, metrics: &dyn MetricsPage) -> io::Result<Vec<u8>> {
    let (status, page) = match request {
        ScrapeRequest::Metrics => ("200 OK", metrics.page().map_err(io::Error::other)?),
        ScrapeRequest::OtherPath => ("404 Not Found", "not found: GET /metrics\n".to_owned()),
        ScrapeRequest::OtherMethod => (
            "405 Method Not Allowed",
            "only GET /metrics is supported\n".to_owned(),
        ),
    };
    let len = page.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {KIND}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    Ok((head + &page).into_bytes())
}

/// Media type of the response.
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Poller token of the listener; connections have higher tokens.
const LISTENER: u64 = 0;
/// Maximum number of connections in total.
const SCRAPERS_MAX: usize = 64;
/// Maximum number of connections of one host.
const HOST_MAX: usize = 16;
/// Maximum number of connections that are accepted without a pause.
const ACCEPTS_MAX: usize = 64;
/// Time for the request, and again for the response.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait between checks of [`TIMEOUT`].
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum length of the head of a request.
const HEAD_MAX: usize = 8 << 10;
/// Pause after an error of the listener.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::metrics::Metrics;

    /// Connects to the server at `address`, and sends `first`.
    #[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
    fn call(address: SocketAddr, first: &[u8]) -> TcpStream {
        let mut tcp = TcpStream::connect(address).unwrap();
        tcp.write_all(first).unwrap();
        tcp
    }

    /// Returns the response and the time that it took.
    fn scrape(address: SocketAddr) -> (String, Duration) {
        let clock = Clock::start();
        let mut tcp = call(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut page = String::new();
        tcp.read_to_string(&mut page).unwrap();
        (page, clock.now().since(Instant::ZERO))
    }

    fn page() -> SocketAddr {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        start(address, Arc::new(Metrics::new())).unwrap()
    }

    #[test]
    fn silent_connections_delay_no_scraper() {
        let address = page();
        let mut silent: Vec<_> = (0..HOST_MAX).map(|_| call(address, b"")).collect();
        silent.extend((0..HOST_MAX).map(|_| call(address, b"GET /met")));
        for _ in 0..5 {
            let (page, time) = scrape(address);
            assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
            assert!(page.ends_with("# EOF\n"), "{page}");
            assert!(time < Duration::from_secs(1), "{time:?}");
        }
        // a silent connection is closed after the timeout
        let mut last = silent.pop().unwrap();
        last.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        assert_eq!(last.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn scrapers_that_do_not_read_delay_no_other_scraper() {
        let address = page();
        let _silent: Vec<_> = (0..HOST_MAX)
            .map(|_| call(address, b"GET /metrics HTTP/1.1\r\n\r\n"))
            .collect();
        assert!(scrape(address).1 < Duration::from_secs(1));
    }

    #[test]
    fn oldest_silent_connection_of_the_largest_site_is_closed_first() {
        let mut scrapers = Scrapers {
            poller: Poller::new().unwrap(),
            metrics: Arc::new(Metrics::new()),
            clock: Clock::start(),
            here: BTreeMap::new(),
            next: 1,
        };
        let address = page();
        let mut enter = |[site, host]: [u8; 2]| {
            scrapers.enter(call(address, b""), [10, 0, site, host].into());
            scrapers.here.keys().copied().collect::<Vec<u64>>()
        };
        for nth in 0..SCRAPERS_MAX as u8 {
            // sites of two connections each, and one site of three
            enter([if nth == 9 { 0 } else { nth / 2 }, nth]);
        }
        let here = enter([200, 0]);
        assert!(!here.contains(&1) && here.len() == SCRAPERS_MAX, "{here:?}");
        for _ in 0..HOST_MAX {
            enter([200, 0]);
        }
        let here = enter([200, 0]);
        assert!(here.contains(&64) && !here.contains(&65), "{here:?}");
    }

    #[test]
    fn other_requests_get_an_error_status() {
        let address = page();
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        ] {
            let mut tcp = call(address, request.as_bytes());
            let mut answer = String::new();
            tcp.read_to_string(&mut answer).unwrap();
            assert!(answer.contains(status), "{answer}");
        }
    }
}
