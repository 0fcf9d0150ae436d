//! A daemon on loopback, and clients with keys of their own.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs, process, thread};

use lighthaul::{Client, CopyRequest, Place, Settings};
use lighthaul_daemon::serve::Server;
use lighthaul_daemon::settings::{AccessPolicy, Limits, Settings as DaemonSettings};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls;

/// Daemon that serves a directory, which is removed with this value. It ends with the process.
pub(crate) struct Host {
    pub(crate) folder: PathBuf,
    pub(crate) key: Fingerprint,
    port: u16,
}

impl Host {
    /// Starts a daemon that allows the clients of these names, each with a directory of its own.
    pub(crate) fn start(test: &str, clients: &[&str]) -> Self {
        let folder = env::temp_dir().join(format!("lighthaul-{test}-{}", process::id()));
        let mut keys = String::new();
        for name in clients {
            fs::create_dir_all(folder.join(name)).unwrap();
            let identity = Identity::load_or_generate(&folder.join(format!("{name}.key"))).unwrap();
            let key = tls::fingerprint(&identity).unwrap();
            writeln!(keys, "{key} {name} root={name}").unwrap();
        }
        fs::write(folder.join("keys"), keys).unwrap();
        let identity = Identity::generate();
        let key = tls::fingerprint(&identity).unwrap();
        let access = AccessPolicy::Listed {
            keys: folder.join("keys"),
            tokens: folder.join("tokens"),
        };
        let server = Server::listen(DaemonSettings {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            ports: None,
            identity,
            access,
            root: Some(folder.clone()),
            plain: false,
            stores: BTreeMap::new(),
            relay: false,
            gateway: None,
            limits: Limits::default(),
        });
        let server = server.unwrap();
        let port = server.address().unwrap().port();
        thread::spawn(move || server.run());
        Self { folder, key, port }
    }

    /// Returns the settings of the client of this name, which knows the key of the daemon.
    pub(crate) fn settings(&self, name: &str) -> Settings {
        let mut settings = Settings::default();
        settings.route.daemon.key = Some(self.folder.join(format!("{name}.key")));
        settings.route.daemon.pin = Some(self.key.to_string());
        settings.known_paths = Some(self.folder.join("paths"));
        settings
    }

    /// Returns the client of this name.
    pub(crate) fn client(&self, name: &str) -> Client {
        Client::new(self.settings(name))
    }

    /// Returns a place in the directory of a client.
    pub(crate) fn place(&self, path: &str) -> Place {
        Place::parse(&format!("lh://127.0.0.1:{}/{path}", self.port)).unwrap()
    }

    /// Creates a file on this side, with bytes that differ.
    pub(crate) fn file(&self, name: &str, len: usize) -> PathBuf {
        let path = self.folder.join(name);
        let bytes: Vec<u8> = (0..len)
            .map(|nth| (nth ^ nth >> 8 ^ nth >> 16) as u8)
            .collect();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns the request for a copy of a file here to `target` there.
    pub(crate) fn push(&self, file: &Path, target: &str) -> CopyRequest {
        CopyRequest::new([Place::Here(file.to_owned())], self.place(target))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Returns the names in a directory, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    lighthaul_testkit::names(folder).unwrap()
}

/// Returns true if both files have the same bytes.
pub(crate) fn are_equal(one: &Path, other: &Path) -> bool {
    fs::read(one).unwrap() == fs::read(other).unwrap()
}

/// Returns a copy of an observer's notes that the test can read.
pub(crate) fn shared<T: Default>() -> (Arc<std::sync::Mutex<T>>, Arc<std::sync::Mutex<T>>) {
    let value = Arc::default();
    (Arc::clone(&value), value)
}
