//! A scheduler on loopback with two hosts, and clients of it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, process, thread};

use lighthaul::{Client, Scheduler, Settings, Timestamp};
use lighthaul_base::Rate;
use lighthaul_booking::books::{Books, Config, Principal};
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::role::Role;
use lighthaul_calendar::{Link, Topology};
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_scheduler::certificate::ServerCertificate;
use lighthaul_scheduler::connections::Limits;
use lighthaul_scheduler::identity::Authenticator;
use lighthaul_scheduler::identity::tokens::{self, Entry, Tokens};
use lighthaul_scheduler::serve::{Server, Settings as ServerSettings};

/// Scheduler of a link of 1 Gb/s from `here` to `far`. It ends with the process.
pub(crate) struct TestBooks {
    folder: PathBuf,
    address: SocketAddr,
}

impl TestBooks {
    /// Starts a scheduler with the user `ada`.
    pub(crate) fn start(test: &str) -> Self {
        let folder = env::temp_dir().join(format!("lighthaul-{test}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let list = folder.join("tokens");
        let entry = Entry {
            token: Fingerprint::of_token("secret"),
            bearer: Principal::new("ada", Role::User),
            expires: None,
        };
        tokens::add(&list, &entry).unwrap();
        fs::write(folder.join("ada"), "secret\n").unwrap();
        fs::write(folder.join("eve"), "guessed\n").unwrap();
        let store = Box::new(Sqlite::open(&folder.join("books")).unwrap());
        let now = || Timestamp(unix_nanos());
        let books = Books::open(store, topology(), Config::default(), now).unwrap();
        let server = Server::listen(ServerSettings {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            certificate: ServerCertificate::Plain,
            insecure: false,
            authenticator: Authenticator {
                tokens: Some(Tokens::open(&list).unwrap()),
                issuer: None,
            },
            books: Arc::new(books),
            requests_per_second: 10_000,
            limits: Limits::default(),
            peers: ServerTrust::certificate(),
            circuits: None,
            jobs: None,
            nsi: None,
        });
        let server = server.unwrap();
        let address = server.address().unwrap();
        thread::spawn(move || server.run());
        Self { folder, address }
    }

    /// Returns the URL of the scheduler.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the file with the token of a user.
    pub(crate) fn token_file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns a client with the token in this file: `ada` is a user, and `eve` is unknown.
    pub(crate) fn client(&self, name: &str) -> Client {
        let mut settings = Settings::default();
        settings.scheduler = Some(Scheduler {
            url: self.url(),
            token_file: Some(self.token_file(name)),
            pin: None,
            known_hosts: Some(self.folder.join("known_hosts")),
        });
        Client::new(settings)
    }
}

impl Drop for TestBooks {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

fn topology() -> Topology {
    let link = Link {
        name: "here-far".to_owned(),
        from: "here".to_owned(),
        to: "far".to_owned(),
        capacity: Rate::from_mbps(1000),
        channel: Rate::from_mbps(1),
        guard: Duration::ZERO,
        cost: 1,
    };
    Topology::new(vec!["here".to_owned(), "far".to_owned()], vec![link]).unwrap()
}
