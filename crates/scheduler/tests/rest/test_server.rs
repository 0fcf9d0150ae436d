//! Scheduler and clients for tests.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_booking::books::{Books, Config, Principal};
use lighthaul_booking::store::Store;
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::{Bytes, NewReservation, Problem, Timestamp};
use lighthaul_booking_client::role::Role;
use lighthaul_calendar::{Link, Topology};
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_scheduler::certificate::ServerCertificate;
use lighthaul_scheduler::connections::Limits;
use lighthaul_scheduler::identity::tokens::{self, Entry, Tokens};
use lighthaul_scheduler::identity::{Authenticator, Issuer, Keys};
use lighthaul_scheduler::jobs::JobDesk;
use lighthaul_scheduler::serve::{Server, Settings};
use tokio::net::TcpSocket;
use tokio::runtime::Builder;

/// Scheduler with three hosts in a row and one that only sends. It ends with the test.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) folder: PathBuf,
    pub(crate) scheme: &'static str,
}

/// Settings that differ between tests.
pub(crate) struct Setup {
    pub(crate) certificate: ServerCertificate,
    pub(crate) config: Config,
    pub(crate) issuer: Option<(Issuer, Keys)>,
    pub(crate) requests_per_second: u32,
    pub(crate) store: Option<Box<dyn Store>>,
    pub(crate) limits: Limits,
    pub(crate) has_jobs: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            certificate: ServerCertificate::Plain,
            config: Config::default(),
            issuer: None,
            requests_per_second: 10_000,
            store: None,
            limits: Limits::default(),
            has_jobs: true,
        }
    }
}

impl TestServer {
    /// Starts a scheduler with default settings.
    pub(crate) fn new() -> Self {
        Self::of(Setup::default())
    }

    pub(crate) fn of(setup: Setup) -> Self {
        static NTH: AtomicUsize = AtomicUsize::new(0);
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("lighthaul-rest-{}-{nth}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let list = folder.join("tokens");
        for (name, role) in [
            ("ada", Role::User),
            ("bob", Role::User),
            ("olga", Role::Operator),
        ] {
            let principal = Principal::new(name, role);
            let token = Fingerprint::of_token(name);
            let expires = None;
            tokens::add(
                &list,
                &Entry {
                    token,
                    bearer: principal,
                    expires,
                },
            )
            .unwrap();
        }
        let past = Entry {
            token: Fingerprint::of_token("old"),
            bearer: Principal::new("ada", Role::Admin),
            expires: Some(1),
        };
        tokens::add(&list, &past).unwrap();
        let scheme = if matches!(setup.certificate, ServerCertificate::Plain) {
            "http"
        } else {
            "https"
        };
        let store = setup.store.unwrap_or_else(|| {
            let store = Sqlite::open(&folder.join("books")).unwrap();
            Box::new(store)
        });
        let books = Books::open(store, topology(), setup.config, || Timestamp(unix_nanos()));
        let server = Server::listen(Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            certificate: setup.certificate,
            insecure: false,
            authenticator: Authenticator {
                tokens: Some(Tokens::open(&list).unwrap()),
                issuer: setup.issuer,
            },
            books: Arc::new(books.unwrap()),
            requests_per_second: setup.requests_per_second,
            limits: setup.limits,
            peers: ServerTrust::certificate(),
            circuits: None,
            jobs: setup
                .has_jobs
                .then(|| JobDesk::open(folder.join("jobs")).unwrap()),
            nsi: None,
        });
        let server = server.unwrap();
        let address = server.address().unwrap();
        thread::spawn(move || server.run());
        Self {
            address,
            folder,
            scheme,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Returns a client with this token: `ada` and `bob` are users, `olga` is an operator.
    pub(crate) fn client(&self, token: &str) -> Client {
        Client::new(
            &self.url(),
            ServerTrust::certificate(),
            Some(token.to_owned()),
        )
        .unwrap()
    }

    /// Sends a raw request and returns the status, the head and the body of the response.
    pub(crate) fn raw(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &str,
    ) -> (u16, String, String) {
        self.raw_as("application/json", (method, path), token, body)
    }

    /// Sends a raw request with another media type.
    pub(crate) fn raw_as(
        &self,
        kind: &str,
        (method, path): (&str, &str),
        token: &str,
        body: &str,
    ) -> (u16, String, String) {
        let mut tcp = TcpStream::connect(self.address).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        tcp.write_all(head.as_bytes()).unwrap();
        // a refused client does not read the rest
        tcp.write_all(body.as_bytes()).ok();
        let mut answer = Vec::new();
        tcp.read_to_end(&mut answer).ok();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    /// Returns the problem that a JSON body gets at a path.
    pub(crate) fn problem(&self, method: &str, path: &str, token: &str, body: &str) -> Problem {
        let (status, head, text) = self.raw(method, path, token, body);
        let problem: Problem =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{status} {text}: {e}"));
        assert!(
            head.to_lowercase()
                .contains("content-type: application/problem+json"),
            "{head}"
        );
        assert_eq!(problem.status, status);
        assert!(
            problem.kind.starts_with("urn:lighthaul:problem:"),
            "{problem:?}"
        );
        problem
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Connects from another address of this host, perhaps with a receive buffer of this size.
pub(crate) fn connect_from(host: u8, to: SocketAddr, buffer: Option<u32>) -> TcpStream {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let connected = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        if let Some(buffer) = buffer {
            socket.set_recv_buffer_size(buffer)?;
        }
        socket.bind(([127, 0, 0, host], 0).into())?;
        socket.connect(to).await?.into_std()
    });
    let tcp = connected.unwrap();
    tcp.set_nonblocking(false).unwrap();
    tcp
}

/// Returns the hosts a, b and c in a row with links of 1 Gb/s in both directions, and d, which only
/// sends.
pub(crate) fn topology() -> Topology {
    let link = |from: &str, to: &str| Link {
        name: format!("{from}-{to}"),
        from: from.to_owned(),
        to: to.to_owned(),
        capacity: Rate::from_mbps(1000),
        channel: Rate::from_mbps(1),
        guard: Duration::ZERO,
        cost: 1,
    };
    let pairs = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("d", "a")];
    let links = pairs.map(|(from, to)| link(from, to));
    let nodes = ["a", "b", "c", "d"].map(str::to_owned);
    Topology::new(nodes.to_vec(), links.to_vec()).unwrap()
}

/// Returns a request for this many bytes from a to c, without a margin.
pub(crate) fn bytes(bytes: u64) -> NewReservation {
    NewReservation {
        from: Some("a".to_owned()),
        to: Some("c".to_owned()),
        size: Some(Bytes(bytes)),
        margin_percent: Some(0),
        ..NewReservation::default()
    }
}

/// Returns the time this many seconds from now.
pub(crate) fn ahead(seconds: u64) -> Timestamp {
    Timestamp(unix_nanos() + seconds * 1_000_000_000)
}

/// Returns the problem of a failure.
pub(crate) fn problem<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Problem {
    let failure = result.unwrap_err();
    let ClientError::Problem(problem) = failure else {
        panic!("{failure}");
    };
    *problem
}
