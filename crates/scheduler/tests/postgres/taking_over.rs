//! The writer is killed while another instance reads and forwards. That one replaces it and has all
//! reservations.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, thread};

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_booking::books::{Books, Config, Principal, Quota};
use lighthaul_booking::store::postgres::Postgres;
use lighthaul_booking_client::client::{Client, Filter};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::{Bytes, NewReservation, Reservation, Timestamp};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_booking_client::role::Role;
use lighthaul_io::crypto::identity::{self, Fingerprint};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_scheduler::certificate::ServerCertificate;
use lighthaul_scheduler::identity::Authenticator;
use lighthaul_scheduler::identity::tokens::{self, Entry, Tokens};
use lighthaul_scheduler::serve::{Server as Service, Settings};
use lighthaul_testkit::postgres_server::{PORTS_MAX, free_port};

use crate::server::Server;
use crate::world::{SECOND, all_for, link, most_at_once};

#[test]
fn killed_writer_is_replaced_without_lost_or_double_bookings() {
    let Some(server) = Server::start() else {
        return;
    };
    let seed = unix_nanos();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let folder = Folder::make("taking-over");
    let mut writer = Instance::start(&server, &folder.0);
    let mut reader = Instance::start(&server, &folder.0);
    let mut reports = Reports::default();
    for round in 0..ROUNDS {
        let place = format!("round {round}, seed {seed}");
        assert_eq!(
            reader.client().health().unwrap().writer,
            Some(writer.url.clone()),
            "{place}"
        );
        let kill_after = Duration::from_micros(rng.below(150_000));
        let asker = Asker::new(&reader.url, rng.below(u64::MAX));
        reports.add(asker.run_past(|| writer.kill_after(kill_after)));
        let client = reader.client();
        assert_eq!(client.health().unwrap().writer, None, "{place}");
        reports.compare(&every_one(&client), &place);
        // the killed instance restarts as a reader
        writer = std::mem::replace(&mut reader, Instance::start(&server, &folder.0));
        reports.compare(&every_one(&reader.client()), &place);
    }
    println!(
        "{} reservations, {} releases in {ROUNDS} kills",
        reports.booked.len(),
        reports.left.len()
    );
    assert!(reports.booked.len() > ROUNDS, "too few for a test");
}

/// Process that the test above kills: a scheduler.
#[test]
#[ignore = "it is started by another test"]
fn instance() {
    #[expect(clippy::disallowed_methods, reason = "set by the other test")]
    let (Ok(store), Ok(listen), Ok(tokens)) = (env::var(STORE), env::var(LISTEN), env::var(TOKENS))
    else {
        return;
    };
    let store = Postgres::open(&store, &format!("http://{listen}")).unwrap();
    let config = Config {
        repack_max: 0,
        policy: Quota {
            reservations: 1_000_000,
            ..Quota::default()
        }
        .into(),
        ..Config::default()
    };
    let books = Books::open(Box::new(store), link(1000), config, || {
        Timestamp(unix_nanos())
    });
    let service = Service::listen(Settings {
        listen: listen.parse().unwrap(),
        certificate: ServerCertificate::Plain,
        insecure: false,
        authenticator: Authenticator {
            tokens: Some(Tokens::open(Path::new(&tokens)).unwrap()),
            issuer: None,
        },
        books: Arc::new(books.unwrap()),
        requests_per_second: 100_000,
        limits: lighthaul_scheduler::connections::Limits::default(),
        peers: ServerTrust::certificate(),
        circuits: None,
        jobs: None,
        nsi: None,
    });
    let service = match service {
        Err(error) if error.to_string().contains("Address already in use") => {
            println!("\n{IN_USE}");
            return;
        }
        service => service.unwrap(),
    };
    println!("\n{READY}");
    service.run().unwrap();
}

/// Scheduler process.
pub(crate) struct Instance {
    pub(crate) child: Child,
    url: String,
    /// Its output, kept open until it ends.
    _said: BufReader<ChildStdout>,
}

impl Instance {
    /// Starts an instance, which is reachable when this returns.
    fn start(server: &Server, folder: &Path) -> Self {
        Self::start_with(server, folder, &Stdio::inherit)
    }

    /// Starts an instance with its errors going to another output.
    pub(crate) fn start_with(server: &Server, folder: &Path, errors: &dyn Fn() -> Stdio) -> Self {
        let mut ports = 0..PORTS_MAX;
        let start = || Self::try_start(server, folder, errors());
        let started = ports.find_map(|_| start());
        started.expect("other processes took all free ports")
    }

    /// Starts an instance. Returns none if another process has taken its port.
    fn try_start(server: &Server, folder: &Path, errors: Stdio) -> Option<Self> {
        // the store needs the address in advance
        let listen = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "taking_over::instance",
            "--exact",
            "--ignored",
            "--nocapture",
        ]);
        command.env(STORE, server.url()).env(LISTEN, &listen);
        command.env(TOKENS, folder.join("tokens"));
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let mut said = output(&mut child);
        let mut line = String::new();
        while line.trim_end() != READY {
            line.clear();
            let length = said.read_line(&mut line).unwrap();
            assert!(length > 0, "an instance did not start");
            if line.trim_end() == IN_USE {
                child.wait().unwrap();
                return None;
            }
        }
        Some(Self {
            child,
            url: format!("http://{listen}"),
            _said: said,
        })
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(
            &self.url,
            ServerTrust::certificate(),
            Some(TOKEN.to_owned()),
        )
        .unwrap()
    }

    /// Kills the instance after this time.
    fn kill_after(&mut self, time: Duration) {
        let clock = Clock::start();
        while clock.now() < Instant::ZERO + time {
            thread::park_timeout(clock.until(Instant::ZERO + time));
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Returns the output of an instance, which is piped.
fn output(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().unwrap())
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Client of one instance, which repeats each request with its key until it is answered.
struct Asker {
    agent: ureq::Agent,
    url: String,
    seed: u64,
}

/// Answers.
#[derive(Default)]
struct Answers {
    booked: Vec<Reservation>,
    left: Vec<u64>,
}

impl Asker {
    fn new(url: &str, seed: u64) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(20)))
            .build();
        Self {
            agent: config.into(),
            url: url.to_owned(),
            seed,
        }
    }

    /// Sends requests from before until after `kill`.
    fn run_past(&self, kill: impl FnOnce()) -> Answers {
        let (answered, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let asking = scope.spawn(|| self.run(&answered, &is_over));
            let clock = Clock::start();
            while answered.load(Ordering::Relaxed) == 0 && clock.now() < Instant::ZERO + TIMEOUT {
                thread::park_timeout(Duration::from_millis(1));
            }
            kill();
            is_over.store(true, Ordering::Relaxed);
            asking.join().unwrap()
        })
    }

    fn run(&self, answered: &AtomicU64, is_over: &AtomicBool) -> Answers {
        let mut rng = Rng::new(self.seed);
        let mut answers = Answers::default();
        let mut mine = Vec::new();
        let mut more = MORE;
        for _ in 0..10_000 {
            if is_over.load(Ordering::Relaxed) {
                more -= 1;
            }
            if more == 0 {
                return answers;
            }
            if !mine.is_empty() && rng.below(4) == 0 {
                let id: u64 = mine.swap_remove(rng.below(mine.len() as u64) as usize);
                self.release(id);
                answers.left.push(id);
            } else {
                let reservation = self.book(&mut rng);
                mine.push(reservation.id);
                answers.booked.push(reservation);
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
        panic!("the writer was not killed");
    }

    fn book(&self, rng: &mut Rng) -> Reservation {
        let new = NewReservation {
            size: Some(Bytes(1 + rng.below(1 << 30))),
            rate_max: Some(Rate::from_mbps(100 + rng.below(901)).into()),
            // late enough that no reservation starts during the test
            start: Some(Timestamp(unix_nanos() + 3600 * SECOND)),
            ..all_for(1)
        };
        let body = serde_json::to_string(&new).unwrap();
        let key = identity::token();
        let answer = self.till_answered("/v1/reservations", &body, &key);
        assert_eq!(answer.0, 201, "{answer:?}");
        serde_json::from_str(&answer.1).unwrap()
    }

    fn release(&self, id: u64) {
        let path = format!("/v1/reservations/{id}/release");
        let answer = self.till_answered(&path, "{\"why\":\"enough\"}", &identity::token());
        // 409: the first answer was lost
        assert!([200, 409].contains(&answer.0), "{answer:?}");
    }

    /// Repeats a request until it is answered. There are no answers without a writer.
    fn till_answered(&self, path: &str, body: &str, key: &str) -> (u16, String) {
        let clock = Clock::start();
        let mut last = String::new();
        while clock.now() < Instant::ZERO + TIMEOUT {
            let request = self.agent.post(format!("{}{path}", self.url));
            let request = request
                .header("Authorization", format!("Bearer {TOKEN}"))
                .header("Content-Type", "application/json")
                .header("Idempotency-Key", key);
            let answer = request.send(body).and_then(|mut answer| {
                let text = answer.body_mut().read_to_string()?;
                Ok((answer.status().as_u16(), text))
            });
            match answer {
                Ok(answer) if answer.0 < 500 => return answer,
                away => last = format!("{away:?}"),
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        panic!("no instance has become the writer: {last}");
    }
}

/// Answers of all rounds.
#[derive(Default)]
struct Reports {
    booked: Vec<Reservation>,
    left: BTreeSet<u64>,
}

impl Reports {
    fn add(&mut self, answers: Answers) {
        self.booked.extend(answers.booked);
        self.left.extend(answers.left);
    }

    /// Asserts that the books have exactly the answered bookings, and fit on the link.
    fn compare(&self, all: &[Reservation], place: &str) {
        let of = |all: &[Reservation]| -> BTreeSet<u64> { all.iter().map(|one| one.id).collect() };
        assert_eq!(of(all), of(&self.booked), "{place}");
        assert_eq!(all.len(), self.booked.len(), "{place}");
        let live: Vec<Reservation> = all
            .iter()
            .filter(|one| !one.state.is_final())
            .cloned()
            .collect();
        assert!(most_at_once(&live) <= 1_000_000_000, "{place}");
        for one in all {
            if self.left.contains(&one.id) {
                assert_eq!(one.state, ReservationState::Released, "{place}");
            } else {
                assert!(self.booked.contains(one), "{place}: {one:?}");
            }
        }
    }
}

fn every_one(client: &Client) -> Vec<Reservation> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..1000 {
        let page = client.reservations(&Filter::default(), after).unwrap();
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    all
}

/// Directory with a valid token.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn make(of: &str) -> Self {
        let name = format!("{of}-{}", std::process::id());
        let folder = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let entry = Entry {
            token: Fingerprint::of_token(TOKEN),
            bearer: Principal::new("ada", Role::User),
            expires: None,
        };
        tokens::add(&folder.0.join("tokens"), &entry).unwrap();
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

const ROUNDS: usize = 20;
/// Requests after a kill.
const MORE: u32 = 4;
const TIMEOUT: Duration = Duration::from_mins(1);
const TOKEN: &str = "a token";
const IN_USE: &str = "the port is in use";
const READY: &str = "listening";
const STORE: &str = "LIGHTHAUL_TEST_STORE";
const LISTEN: &str = "LIGHTHAUL_TEST_LISTEN";
const TOKENS: &str = "LIGHTHAUL_TEST_TOKENS";
