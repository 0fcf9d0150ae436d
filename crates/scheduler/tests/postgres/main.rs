//! Books in a real `PostgreSQL` server, which goes away and comes back; instances that take over from each other.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test, which says that it was skipped"
)]

#[expect(dead_code, reason = "other tests need the rest")]
#[path = "../books/world.rs"]
mod world;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lighthaul_scheduler::Error;
use lighthaul_scheduler::books::{Books, Config, Filter};
use lighthaul_scheduler::store::Writer;
use lighthaul_scheduler::store::postgres::Postgres;
use world::{BEGIN, SECOND, World, ada, all_for, ben, held_for, open, operator};

#[test]
fn what_was_answered_survives_a_restart_of_the_server() {
    let Some(server) = Server::start() else {
        return;
    };
    let world = World::on(server.store("http://one"), Config::default());
    let first = world
        .books
        .reserve(&ada(), &all_for(10), Some("k"))
        .unwrap();
    let before = world.calendar();
    server.control("stop", "fast");
    let why = world.books.reserve(&ada(), &all_for(10), None).unwrap_err();
    assert!(matches!(why, Error::Store(_)), "{why:?}");
    assert!(
        why.to_string()
            .contains("nothing was changed: see whether the server runs"),
        "{why}"
    );
    assert!(world.books.tick().is_err());
    server.begin();
    assert_eq!(
        world
            .books
            .reserve(&ada(), &all_for(10), Some("k"))
            .unwrap(),
        first
    );
    assert_eq!(world.calendar(), before);
    // a crash of the server
    server.control("stop", "immediate");
    server.begin();
    let second = after_a_failure(|| world.books.reserve(&ben(), &all_for(10), None));
    assert_eq!(second.promised_end, World::at(20));
    let all = world
        .books
        .list(&operator(), &Filter::default(), (0, 10))
        .unwrap();
    let ids: Vec<u64> = all.items.iter().map(|one| one.id).collect();
    assert_eq!(ids, [first.id, second.id]);
}

#[test]
fn when_the_writer_goes_another_instance_has_everything() {
    let Some(server) = Server::start() else {
        return;
    };
    let now = Arc::new(AtomicU64::new(BEGIN));
    let instance = |url: &str| open(server.store(url), Config::default(), &now).unwrap();
    let (one, two) = (instance("http://one"), instance("http://two"));
    assert_eq!(
        (one.writer().unwrap(), two.writer().unwrap()),
        (Writer::Here, Writer::At("http://one".into()))
    );
    let first = one.reserve(&ada(), &all_for(10), Some("k")).unwrap();
    let hold = one.reserve(&ben(), &held_for(10), None).unwrap();
    assert_eq!(
        two.get(&ada(), first.id).unwrap(),
        one.get(&ada(), first.id).unwrap(),
        "who reads has what was just written"
    );
    match two.reserve(&ada(), &all_for(1), None) {
        Err(Error::Elsewhere { url }) => assert_eq!(url, "http://one"),
        answer => panic!("{answer:?}"),
    }
    drop(one);
    let second = after_a_failure(|| two.reserve(&ada(), &all_for(10), None));
    assert_eq!(second.promised_end, World::at(30));
    assert_eq!(two.reserve(&ada(), &all_for(10), Some("k")).unwrap(), first);
    now.fetch_add(120 * SECOND, Ordering::Relaxed);
    two.tick().unwrap();
    assert!(
        two.get(&ben(), hold.id).unwrap().state.is_final(),
        "holds are taken over with their time-outs"
    );
    let three = instance("http://three");
    assert_eq!(three.writer().unwrap(), Writer::At("http://two".into()));
    assert_eq!(promised(&three), promised(&two));
}

#[test]
fn a_writer_that_was_cut_off_does_not_write_over_its_successor() {
    let Some(server) = Server::start() else {
        return;
    };
    let now = Arc::new(AtomicU64::new(BEGIN));
    let instance = |url: &str| open(server.store(url), Config::default(), &now).unwrap();
    let (one, two) = (instance("http://one"), instance("http://two"));
    one.reserve(&ada(), &all_for(10), None).unwrap();
    server.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted",
    );
    let taken = after_a_failure(|| two.reserve(&ben(), &all_for(10), None));
    assert_eq!(taken.promised_end, World::at(20));
    // the first learns of it now, at the latest with its next change
    let mut answers = (0..3).map(|_| one.reserve(&ada(), &all_for(10), None));
    assert!(answers.all(|answer| matches!(answer, Err(Error::Store(_) | Error::Elsewhere { .. }))));
    assert_eq!(promised(&one), promised(&two));
    assert_eq!(
        two.list(&operator(), &Filter::default(), (0, 10))
            .unwrap()
            .items
            .len(),
        2
    );
}

/// A server without its database, and one that is not there.
#[test]
fn a_server_that_cannot_be_used_is_named_with_what_to_do() {
    let gone = Postgres::open("postgres://localhost:1/books", "")
        .unwrap_err()
        .to_string();
    assert!(gone.contains("see whether the server runs"), "{gone}");
    let wrong = Postgres::open("postgres//", "").unwrap_err().to_string();
    assert!(wrong.contains("postgres://user@host/books"), "{wrong}");
}

/// What is promised from the beginning on.
fn promised(books: &Books) -> lighthaul_schedule::Calendar {
    let mut calendar = books.snapshot().unwrap();
    calendar.forget(World::at(0).instant());
    calendar
}

/// The answer when somebody who was cut off tries a few times.
fn after_a_failure<T>(mut ask: impl FnMut() -> lighthaul_scheduler::Result<T>) -> T {
    let mut answers = (0..100).map(|_| {
        // the server lets go of the locks of a connection when it sees that it is gone
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        ask()
    });
    answers.find_map(Result::ok).unwrap()
}

/// A server of this test's own, on a socket in a folder.
struct Server {
    folder: PathBuf,
    programs: PathBuf,
}

impl Server {
    /// Starts it; nothing where `PostgreSQL` is not installed.
    fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: PostgreSQL is not installed");
            return None;
        };
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        // the path of a socket is short, and others than root can get there
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

    fn begin(&self) {
        let options = format!("-k {} -c listen_addresses=", self.folder.display());
        let mut start = self.command("pg_ctl");
        start
            .args(["start", "-w", "-s", "-l"])
            .arg(self.folder.join("log"));
        assert_success(start.arg("-o").arg(options).arg("-D").arg(self.data()));
    }

    fn control(&self, verb: &str, mode: &str) {
        assert_success(
            self.command("pg_ctl")
                .args([verb, "-w", "-s", "-m", mode, "-D"])
                .arg(self.data()),
        );
    }

    fn store(&self, url: &str) -> Box<Postgres> {
        Box::new(Postgres::open(&self.url(), url).unwrap())
    }

    fn ask(&self, query: &str) {
        let mut client = postgres::Client::connect(&self.url(), postgres::NoTls).unwrap();
        client.batch_execute(query).unwrap();
    }

    fn url(&self) -> String {
        format!(
            "host={} user=lighthaul dbname=postgres",
            self.folder.display()
        )
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A command as one who may run a server, which root may not.
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

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        stop.args(["stop", "-w", "-s", "-m", "immediate", "-D"])
            .arg(self.data())
            .status()
            .ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Where the programs of a server are: Debian keeps them out of the path.
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
    // a server that goes on in the background keeps what it inherits
    let out = command
        .stdout(std::process::Stdio::null())
        .stdin(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(out.success(), "{command:?}");
}

/// Servers that this process has started.
static NEXT: AtomicUsize = AtomicUsize::new(0);
