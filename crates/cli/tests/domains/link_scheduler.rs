//! Scheduler whose link has only the capacity of paths that are offered to it.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::{Bytes, NewOutage, NewReservation, Reservation, Timestamp};
use lighthaul_io::host::clock::unix_nanos;

use crate::commands::{LIGHTHAUL, run};
use crate::running::Running;
use crate::scratch::Scratch;

/// Scheduler with a link `lambda` from `a` to `b`.
pub(crate) struct LinkScheduler {
    pub(crate) url: String,
    /// File with the token of an operator.
    token: std::path::PathBuf,
    operator: Client,
    user: Client,
    _process: Running,
}

impl LinkScheduler {
    /// Starts a scheduler with files in a directory, whose link has this capacity.
    pub(crate) fn start(files: &Scratch, capacity: &str) -> Self {
        let link = format!(
            "[[link]]\nname = \"lambda\"\nfrom = \"a\"\nto = \"b\"\ncapacity = \"{capacity}\"\n"
        );
        fs::write(files.at("network.toml"), link).unwrap();
        let token = |name: &str, role: &str| {
            let mut token = Command::new(LIGHTHAUL);
            token.args(["token", name, "--role", role, "--tokens"]);
            token.arg(files.at("tokens"));
            run(token).assert_succeeded().out.concat()
        };
        let (operator, user) = (token("olga", "operator"), token("ada", "user"));
        fs::write(files.at("token"), &operator).unwrap();
        let mut serve = Command::new(LIGHTHAUL);
        serve.args(["scheduler", "--no-tls", "--listen", "127.0.0.1:0"]);
        for (flag, file) in [
            ("--topology", "network.toml"),
            ("--store", "books"),
            ("--key", "scheduler-key"),
            ("--tokens", "tokens"),
        ] {
            serve.arg(flag).arg(files.at(file));
        }
        let mut process = Running::start(serve);
        let line = process.says("booking at ");
        let url = line.split("booking at ").nth(1).unwrap();
        let url = url.split([' ', ',']).next().unwrap().to_owned();
        let client = |token| Client::new(&url, ServerTrust::certificate(), Some(token)).unwrap();
        Self {
            operator: client(operator),
            user: client(user),
            url,
            token: files.at("token"),
            _process: process,
        }
    }

    /// Plans an outage of the link for all times.
    pub(crate) fn close_link(&self) {
        let never = NewOutage {
            link: "lambda".to_owned(),
            from: None,
            till: "2100-01-01T00:00:00Z".parse().unwrap(),
            why: String::new(),
        };
        self.operator.outage(&never).unwrap();
    }

    /// Returns the outages of the link in order of time: start and end of each.
    pub(crate) fn outages(&self) -> Vec<(Timestamp, Timestamp)> {
        let outages = self.operator.outages().unwrap();
        let mut times: Vec<_> = outages.iter().map(|one| (one.from, one.till)).collect();
        times.sort_unstable();
        times
    }

    /// Removes all outages.
    pub(crate) fn lift_all(&self) {
        for outage in self.operator.outages().unwrap() {
            self.operator.lift(outage.id).unwrap();
        }
    }

    /// Starts `lighthaul path` with these words, which offers the path at a URL to a link.
    pub(crate) fn offer(&self, path: &[&str], (url, link): (&str, &str), socket: &Path) -> Running {
        let mut offer = Command::new(LIGHTHAUL);
        offer.arg("path").args(path);
        offer.args(["--offer-to", url, "--link", link]);
        offer.arg("--scheduler-token").arg(&self.token);
        offer.arg("--socket").arg(socket);
        Running::start(offer)
    }

    /// Books this many bytes from `a` to `b`, which must end within two hours.
    pub(crate) fn book(&self, bytes: u64) -> Result<Reservation, ClientError> {
        let by = unix_nanos() + 7_200_000_000_000;
        self.user.reserve(&NewReservation {
            from: Some("a".to_owned()),
            to: Some("b".to_owned()),
            size: Some(Bytes(bytes)),
            by: Some(Timestamp(by)),
            ..NewReservation::default()
        })
    }
}

/// Relay in front of a scheduler. It ends the connection in place of one answer.
pub(crate) struct Relay {
    pub(crate) url: String,
    /// Number of requests with the method of that answer.
    seen: Arc<AtomicUsize>,
    nth: usize,
}

impl Relay {
    /// Starts a relay that loses the answer to the `nth` request with a method.
    pub(crate) fn start(scheduler: &str, (method, nth): (&'static str, usize)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let address = scheduler.trim_start_matches("http://").to_owned();
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        // the thread ends with the test program
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&address).unwrap());
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    let is_lost = |request: &[u8]| {
                        let is_it = request.starts_with(method.as_bytes());
                        is_it && count.fetch_add(1, Ordering::Relaxed) + 1 == nth
                    };
                    relay(&client, &server, is_lost);
                    client.shutdown(Shutdown::Both).ok();
                });
            }
        });
        Self { url, seen, nth }
    }

    /// Returns true if the answer was lost.
    pub(crate) fn has_cut(&self) -> bool {
        self.seen.load(Ordering::Relaxed) >= self.nth
    }
}

/// Passes requests and answers on, until the answer to a request is lost or the connection ends.
fn relay(client: &TcpStream, server: &TcpStream, is_lost: impl Fn(&[u8]) -> bool) {
    while let Some(request) = read_message(client) {
        (&*server).write_all(&request).unwrap();
        let Some(answer) = read_message(server) else {
            return;
        };
        if is_lost(&request) || (&*client).write_all(&answer).is_err() {
            return;
        }
    }
}

/// Returns the next message of HTTP with its content, or nothing at the end of the connection.
fn read_message(mut from: &TcpStream) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    while !message.ends_with(b"\r\n\r\n") {
        let mut octet = [0];
        from.read_exact(&mut octet).ok()?;
        message.extend(octet);
    }
    let head = String::from_utf8_lossy(&message).to_ascii_lowercase();
    assert!(!head.contains("transfer-encoding"), "{head}");
    let length = head.split("content-length:").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
    let mut content = vec![0; length.unwrap_or(0)];
    from.read_exact(&mut content).ok()?;
    message.extend(content);
    Some(message)
}
