//! Locks, slow statements and stopped writers: each ends in an error or a replacement in time.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_booking::books::Config;
use lighthaul_booking::store::postgres::Postgres;
use lighthaul_booking::store::{Store, Writer};
use lighthaul_io::host::clock::Clock;

use crate::after_a_failure;
use crate::server::Server;
use crate::world::{World, ada, all_for};

#[test]
fn locked_table_ends_in_an_error_with_a_remedy_within_the_timeout() {
    let Some(server) = Server::start() else {
        return;
    };
    let world = World::on(server.store("http://one"), Config::default());
    for table in ["documents", "books"] {
        let mut other = server.client();
        let lock = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        other.batch_execute(&lock).unwrap();
        let (said, took) = refused(&world);
        assert!(said.contains("lock timeout"), "{said}");
        assert!(
            said.contains("nothing was changed: another program holds a lock"),
            "{said}"
        );
        assert!(in_time(took), "{table}: {took:?}");
        other.batch_execute("ROLLBACK").unwrap();
        after_a_failure(|| world.books.reserve(&ada(), &all_for(1), None));
    }
}

#[test]
fn slow_statement_ends_in_an_error_within_the_timeout() {
    let Some(server) = Server::start() else {
        return;
    };
    let world = World::on(server.store("http://one"), Config::default());
    server.ask(&slow(60));
    let (said, took) = refused(&world);
    assert!(said.contains("statement timeout"), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    assert!(in_time(took), "{took:?}");
    server.ask("DROP TRIGGER slow ON documents");
    after_a_failure(|| world.books.reserve(&ada(), &all_for(1), None));
}

/// The kernel of a stopped process still acknowledges keepalive probes, so only the timeout of idle
/// transactions releases the lock.
#[test]
fn writer_stopped_in_a_transaction_is_replaced_within_15_s() {
    let Some(server) = Server::start() else {
        return;
    };
    // a later connection would wait for the transaction
    let mut store = Postgres::open(&server.url(), "http://two").unwrap();
    let writer = Stopped::start(&server);
    assert_eq!(
        store.elect().unwrap(),
        Writer::Other("http://stopped".to_owned())
    );
    let clock = Clock::start();
    let mut client = server.client();
    let mut sleeps = || {
        let query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        client.query_one(query, &[]).unwrap().get::<_, i64>(0) == 1
    };
    while !sleeps() {
        assert!(clock.now() < Instant::ZERO + LONGEST, "nothing is written");
        thread::park_timeout(Duration::from_millis(10));
    }
    writer.stop();
    let stopped = clock.now();
    while store.elect().unwrap() != Writer::This {
        assert!(clock.now() < stopped + LONGEST, "the lock is held");
        thread::park_timeout(Duration::from_millis(100));
    }
    println!("replaced after {:?}", clock.now().since(stopped));
}

/// Process that the test above stops while it writes a reservation.
#[test]
#[ignore = "it is started by another test"]
fn writer() {
    #[expect(clippy::disallowed_methods, reason = "set by the other test")]
    let Ok(url) = env::var(STORE) else {
        return;
    };
    let store = Postgres::open(&url, "http://stopped").unwrap();
    let world = World::on(Box::new(store), Config::default());
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    client.batch_execute(&slow(2)).unwrap();
    println!("\n{READY}");
    world.books.reserve(&ada(), &all_for(1), None).ok();
    thread::park_timeout(Duration::from_mins(2));
}

/// Returns the error of a reservation, and its duration.
fn refused(world: &World) -> (String, Duration) {
    let clock = Clock::start();
    let why = world.books.reserve(&ada(), &all_for(1), None).unwrap_err();
    (why.to_string(), clock.now().since(Instant::ZERO))
}

/// Returns true if an action took about as long as the timeouts of 4 s for locks and 5 s for statements.
fn in_time(took: Duration) -> bool {
    (Duration::from_secs(3)..Duration::from_secs(8)).contains(&took)
}

/// Returns the statements after which each write of a reservation takes this many seconds.
fn slow(seconds: u64) -> String {
    format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END $$;
         CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON documents
         FOR EACH STATEMENT EXECUTE FUNCTION slow();"
    )
}

/// Process of a writer, which ends with the test.
struct Stopped(Child);

impl Stopped {
    /// Starts a writer that is about to write.
    fn start(server: &Server) -> Self {
        let own = env::current_exe().unwrap();
        let mut child = Command::new(own);
        child.args(["locked::writer", "--exact", "--ignored", "--nocapture"]);
        child.env(STORE, server.url()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let process = Self(child);
        let mut lines = said.lines().map_while(Result::ok);
        assert!(lines.any(|line| line == READY), "there is no writer");
        process
    }

    fn stop(&self) {
        let id = self.0.id().to_string();
        let stopped = Command::new("kill").args(["-STOP", &id]).status().unwrap();
        assert!(stopped.success());
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

const LONGEST: Duration = Duration::from_secs(15);
const READY: &str = "writing";
const STORE: &str = "LIGHTHAUL_TEST_STORE";
