//! The one page of a daemon: `/metrics` over HTTP/1.1, on one thread that waits for no caller.
//!
//! ```text
//! accept -> silent -> the request is whole -> the page is written -> closed
//! ```
//!
//! Where there is no room, the oldest silent caller of the most crowded site leaves before those that get their page.

use std::cmp::Reverse;
use std::collections::BTreeMap;
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

use crate::metrics::Metrics;

/// Answers scrapers at `address` until the process ends. Returns the address where it listens.
pub(crate) fn start(address: SocketAddr, metrics: Arc<Metrics>) -> io::Result<SocketAddr> {
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

/// Callers of the page.
#[derive(Debug)]
struct Scrapers {
    poller: Poller,
    metrics: Arc<Metrics>,
    clock: Clock,
    /// By number; a lower number came earlier.
    here: BTreeMap<u64, Scraper>,
    next: u64,
}

#[derive(Debug)]
struct Scraper {
    tcp: TcpStream,
    from: IpAddr,
    until: Instant,
    /// The request, as far as it has arrived.
    request: Vec<u8>,
    /// What is left of the answer, once the request is whole.
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
                debug!("a scraper was not answered: {error}");
                thread::park_timeout(BREATH);
            }
        }
    }

    fn turn(&mut self, listener: &TcpListener) -> io::Result<()> {
        let mut result = Ok(());
        for ready in self.poller.wait(LOOK)? {
            if ready.token == LISTENER {
                result = self.accept(listener);
            } else {
                self.attend(ready.token);
            }
        }
        let now = self.clock.now();
        self.here.retain(|_, scraper| scraper.until > now);
        result
    }

    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        for _ in 0..CALLS_MAX {
            match listener.accept() {
                Ok((tcp, from)) => self.enter(tcp, from.ip()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // the caller has gone again
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
            until: self.clock.now() + PATIENCE,
            request: Vec::new(),
            answer: None,
        };
        self.here.insert(number, scraper);
    }

    /// Returns the caller that leaves for one from `address`, if one has to.
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
        } else if self.here.len() >= CALLERS_MAX {
            self.here.iter().min_by_key(order)
        } else {
            None
        };
        leaves.map(|(number, _)| *number)
    }

    /// Goes on with a caller from which something has arrived, or that has room for more of its answer.
    fn attend(&mut self, number: u64) {
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
                scraper.until = now + PATIENCE;
                scraper.answer = Some(answer(&scraper.request, &self.metrics)?);
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
                debug!("{} was not answered: {error}", scraper.from);
                self.here.remove(&number);
            }
        }
    }
}

impl Scraper {
    /// Reads what has arrived. Returns true once the head of the request is whole, so that closing takes nothing back.
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

    /// Writes as much of the answer as TCP takes. Returns true once that is all.
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

/// Returns the answer to `request`.
fn answer(request: &[u8], metrics: &Metrics) -> io::Result<Vec<u8>> {
    let line = request.split(|octet| *octet == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default());
    let mut words = line.split(' ');
    let (status, page) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => ("200 OK", metrics.print().map_err(io::Error::other)?),
        (Some("GET"), Some(_)) => ("404 Not Found", "look at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "GET /metrics\n".to_owned()),
    };
    let len = page.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {KIND}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    Ok((head + &page).into_bytes())
}

/// Media type of the page.
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Token of the listener; callers have those above.
const LISTENER: u64 = 0;
/// Callers at a time, and those of one host.
const CALLERS_MAX: usize = 64;
const HOST_MAX: usize = 16;
/// Calls that are taken in a row.
const CALLS_MAX: usize = 64;
/// Time that a scraper has for its request, and again for the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait between checks of [`PATIENCE`].
const LOOK: Duration = Duration::from_millis(200);
/// Longest head of a request.
const HEAD_MAX: usize = 8 << 10;
/// Pause after a failure, since the next may come at once.
const BREATH: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Calls the page at `address`, and says `first`.
    #[expect(clippy::disallowed_methods, reason = "a test is a world of its own")]
    fn call(address: SocketAddr, first: &[u8]) -> TcpStream {
        let mut tcp = TcpStream::connect(address).unwrap();
        tcp.write_all(first).unwrap();
        tcp
    }

    /// Returns the page, and the time that it took.
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
    fn silent_callers_delay_no_scraper() {
        let address = page();
        let mut silent: Vec<_> = (0..HOST_MAX).map(|_| call(address, b"")).collect();
        silent.extend((0..HOST_MAX).map(|_| call(address, b"GET /met")));
        for _ in 0..5 {
            let (page, time) = scrape(address);
            assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
            assert!(page.ends_with("# EOF\n"), "{page}");
            assert!(time < Duration::from_secs(1), "{time:?}");
        }
        // a caller that said nothing for too long has been sent away
        let mut last = silent.pop().unwrap();
        last.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        assert_eq!(last.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn callers_that_do_not_read_their_page_delay_no_scraper() {
        let address = page();
        let _deaf: Vec<_> = (0..HOST_MAX)
            .map(|_| call(address, b"GET /metrics HTTP/1.1\r\n\r\n"))
            .collect();
        assert!(scrape(address).1 < Duration::from_secs(1));
    }

    #[test]
    fn silent_callers_of_the_largest_site_leave_first() {
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
        for nth in 0..CALLERS_MAX as u8 {
            // sites of two callers, but for one of three
            enter([if nth == 9 { 0 } else { nth / 2 }, nth]);
        }
        let here = enter([200, 0]);
        assert!(!here.contains(&1) && here.len() == CALLERS_MAX, "{here:?}");
        for _ in 0..HOST_MAX {
            enter([200, 0]);
        }
        let here = enter([200, 0]);
        assert!(here.contains(&64) && !here.contains(&65), "{here:?}");
    }

    #[test]
    fn what_is_not_the_page_is_answered_in_words() {
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
