//! `PostgreSQL` server for tests.
#![expect(clippy::unwrap_used, reason = "used by tests")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::skip::skip;

/// Server on a socket in a directory, for one test or a few. It ends with the value.
#[derive(Debug)]
pub struct PostgresServer {
    folder: PathBuf,
    programs: PathBuf,
}

impl PostgresServer {
    /// Starts a server; `None` if `PostgreSQL` is not installed.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            skip("postgres", "needs PostgreSQL's initdb and pg_ctl");
            return None;
        };
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        // the path of a socket is short, and accessible for other users than root
        let folder = PathBuf::from(format!(
            "/tmp/lighthaul-postgres-{}-{nth}",
            std::process::id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let server = Self { folder, programs };
        if Self::is_root() {
            assert_success(Command::new("chown").arg("postgres").arg(&server.folder));
        }
        let data = server.data();
        assert_success(
            server
                .command("initdb")
                .args(["--no-sync", "-A", "trust", "-U", "lighthaul", "-D"])
                .arg(data),
        );
        server.begin();
        Some(server)
    }

    /// Starts a server that was stopped.
    pub fn begin(&self) {
        self.begin_with("-c listen_addresses=");
    }

    /// Starts a server with more options.
    pub fn begin_with(&self, more: &str) {
        let options = format!("-k {} {more}", self.folder.display());
        let mut start = self.command("pg_ctl");
        start
            .args(["start", "-w", "-s", "-l"])
            .arg(self.folder.join("log"));
        assert_success(start.arg("-o").arg(options).arg("-D").arg(self.data()));
    }

    /// Starts a server with more options on a free port, and returns the port. Another process may
    /// take the port first, so the next one is tried then.
    pub fn begin_on_port(&self, more: &str) -> u16 {
        let log = self.folder.join("log");
        for _ in 0..PORTS_MAX {
            let port = free_port();
            std::fs::remove_file(&log).ok();
            let options = format!("-k {} {more} -p {port}", self.folder.display());
            let mut start = self.command("pg_ctl");
            start.args(["start", "-w", "-s", "-l"]).arg(&log);
            start.arg("-o").arg(options).arg("-D").arg(self.data());
            let has_started = succeeds(&mut start);
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let is_taken = said.contains("Address already in use");
            if has_started && !is_taken {
                return port;
            }
            assert!(is_taken, "the server did not start: {said}");
            // it may listen on another address
            if has_started {
                self.control("stop", "immediate");
            }
        }
        panic!("other processes took {PORTS_MAX} free ports");
    }

    /// Controls the server by `pg_ctl`, as in `stop` and `immediate`.
    pub fn control(&self, verb: &str, mode: &str) {
        assert_success(
            self.command("pg_ctl")
                .args([verb, "-w", "-s", "-m", mode, "-D"])
                .arg(self.data()),
        );
    }

    /// Returns a command that runs a program of the installation.
    pub fn program(&self, name: &str) -> Command {
        Command::new(self.programs.join(name))
    }

    /// Returns the words that name the server for a client.
    pub fn url(&self) -> String {
        format!(
            "host={} user=lighthaul dbname=postgres",
            self.folder.display()
        )
    }

    /// Returns the URL of the server, with a schema of this name for all tables.
    pub fn url_of(&self, schema: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://lighthaul@/postgres?host={folder}&options=-csearch_path%3D{schema}")
    }

    /// Writes a file that only the server can read.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        if Self::is_root() {
            assert_success(Command::new("chown").arg("postgres").arg(&path));
        }
        path
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Returns a command as a user who may run a server, which root may not.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        if !Self::is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=postgres", "--regid=postgres", "--clear-groups"])
            .arg(program);
        command
    }

    fn is_root() -> bool {
        let own = std::fs::metadata("/proc/self").unwrap();
        std::os::unix::fs::MetadataExt::uid(&own) == 0
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        stop.args(["stop", "-w", "-s", "-m", "immediate", "-D"])
            .arg(self.data())
            .status()
            .ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Returns a port of this host without a listener. Another process can take it at any time.
#[expect(clippy::disallowed_methods, reason = "a test has sockets")]
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Returns the directory of the server programs, which Debian does not add to the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.extend(["/usr/bin", "/usr/local/bin", "/usr/local/pgsql/bin"].map(PathBuf::from));
    folders
        .into_iter()
        .find(|folder| folder.join("initdb").exists())
}

fn assert_success(command: &mut Command) {
    assert!(succeeds(command), "{command:?}");
}

fn succeeds(command: &mut Command) -> bool {
    // a server in the background keeps inherited files open
    let out = command
        .stdout(std::process::Stdio::null())
        .stdin(std::process::Stdio::null())
        .status()
        .unwrap();
    out.success()
}

/// Maximum number of free ports that are tried.
pub const PORTS_MAX: usize = 10;

/// Number of servers that this process has started.
static NEXT: AtomicUsize = AtomicUsize::new(0);
