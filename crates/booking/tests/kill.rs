//! A scheduler that is killed at any time loses no answer and books nothing twice.
#![expect(clippy::unwrap_used, reason = "a test")]

#[expect(dead_code, reason = "used by other tests")]
#[path = "books/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use lighthaul_base::Rng;
use lighthaul_booking::books::{Books, Config, Filter};
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::json::{Bytes, NewReservation, Reservation, Timestamp};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_calendar::Calendar;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use world::{SECOND, ada, all_for, link, most_at_once, operator};

#[test]
fn killed_scheduler_loses_no_answer_and_books_no_request_twice() {
    let seed = unix_nanos();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kill-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("books.sqlite");
    let mut reports = Reports::default();
    for round in 0..ROUNDS {
        let booker = Booker::start(&file, rng.below(u64::MAX));
        booker.run_for(Duration::from_micros(rng.below(120_000)), &mut reports);
        let books = open(&file);
        let all = every_one(&books);
        assert!(
            most_at_once(&all) <= 1_000_000_000,
            "round {round}, seed {seed}"
        );
        let found: BTreeMap<u64, &Reservation> = all.iter().map(|one| (one.id, one)).collect();
        for (id, answered) in &reports.answered {
            let kept = found.get(id).copied();
            if reports.leaving.contains(id) {
                let is_released = kept.is_some_and(|kept| kept.state == ReservationState::Released);
                assert!(
                    is_released || !reports.left.contains(id),
                    "round {round}, seed {seed}"
                );
            } else {
                assert_eq!(kept, Some(answered), "round {round}, seed {seed}");
            }
        }
        // at most one booking of each round was stored without an answer
        assert!(
            all.len() <= reports.answered.len() + round + 1,
            "round {round}, seed {seed}"
        );
        let before = books.snapshot().unwrap();
        drop(books);
        let again = open(&file);
        let after = again.snapshot().unwrap();
        let now = Timestamp(unix_nanos());
        assert_eq!(
            ahead(before, now),
            ahead(after, now),
            "round {round}, seed {seed}"
        );
    }
    println!(
        "{} answers, {} releases in {ROUNDS} kills",
        reports.answered.len(),
        reports.left.len()
    );
    assert!(reports.answered.len() > ROUNDS, "too few for a test");
    fs::remove_dir_all(folder).unwrap();
}

/// Process that the test above kills. It books and releases, and reports each answer.
#[test]
#[ignore = "it is started by another test"]
fn child_books_reservations_until_killed() {
    #[expect(clippy::disallowed_methods, reason = "set by the other test")]
    let (Ok(file), Ok(seed)) = (env::var(FILE), env::var(SEED)) else {
        return;
    };
    let mut rng = Rng::new(seed.parse().unwrap());
    let books = open(Path::new(&file));
    let mut mine = Vec::new();
    // each report starts a line
    println!();
    for _ in 0..10_000 {
        if !mine.is_empty() && rng.below(4) == 0 {
            let id: u64 = mine.swap_remove(rng.below(mine.len() as u64) as usize);
            println!("leaving {id}");
            books.release(&ada(), id, "enough").unwrap();
            println!("left {id}");
            continue;
        }
        let new = NewReservation {
            size: Some(Bytes(1 + rng.below(1 << 30))),
            rate_max: Some(lighthaul_base::Rate::from_mbps(100 + rng.below(901)).into()),
            // late enough that no reservation starts during the test
            start: Some(Timestamp(unix_nanos() + 3600 * SECOND)),
            ..all_for(1)
        };
        let key = rng.below(u64::MAX).to_string();
        let reservation = books.reserve(&ada(), &new, Some(&key)).unwrap();
        mine.push(reservation.id);
        println!("booked {}", serde_json::to_string(&reservation).unwrap());
    }
    assert!(mine.len() < 10_000, "the process was not killed");
}

/// Books that were restored from a backup lack the last answer. They are refused however the
/// scheduler has ended.
#[test]
fn restored_books_are_refused_after_a_kill_or_a_stop() {
    for end in [End::Stop, End::Terminate, End::Kill] {
        let name = format!("put-back-{end:?}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let copy = folder.join("copy");
        fs::create_dir_all(&copy).unwrap();
        let file = folder.join("books");
        let files = ["books", "books-wal"].map(|name| (folder.join(name), copy.join(name)));
        let mut pair = OneAndOneMore::start(&file);
        pair.wait_for("one");
        for (file, copy) in &files {
            fs::copy(file, copy).unwrap();
        }
        pair.run();
        pair.wait_for("one more");
        pair.end(end);
        let config = || Config {
            position_file: Some(folder.join("books.seen")),
            ..Config::default()
        };
        let start = || {
            let store = Box::new(Sqlite::open(&file).unwrap());
            Books::open(store, link(1000), config(), || Timestamp(unix_nanos()))
        };
        let newer = start().unwrap();
        assert_eq!(every_one(&newer).len(), 2, "{end:?}");
        drop(newer);
        for (file, copy) in &files {
            fs::remove_file(file).ok();
            fs::copy(copy, file).unwrap();
        }
        let why = start().unwrap_err().to_string();
        assert!(why.contains("is older than before"), "{end:?}: {why}");
        fs::remove_dir_all(folder).unwrap();
    }
}

/// Process that the test above ends. It books once, and again for each line that it reads.
#[test]
#[ignore = "it is started by another test"]
fn child_books_two_reservations() {
    #[expect(clippy::disallowed_methods, reason = "set by the other test")]
    let Ok(file) = env::var(FILE) else {
        return;
    };
    let seen = format!("{file}.seen");
    let config = Config {
        position_file: Some(seen.into()),
        ..Config::default()
    };
    let store = Box::new(Sqlite::open(Path::new(&file)).unwrap());
    let books = Books::open(store, link(1000), config, || Timestamp(unix_nanos())).unwrap();
    let mut line = String::new();
    println!();
    for said in ["one", "one more"] {
        books.reserve(&ada(), &all_for(1), None).unwrap();
        println!("{said}");
        std::io::stdin().read_line(&mut line).unwrap();
    }
}

/// End of a scheduler.
#[derive(Clone, Copy, Debug)]
enum End {
    Stop,
    Terminate,
    Kill,
}

/// Process that runs `child_books_two_reservations`.
struct OneAndOneMore {
    child: Child,
    said: BufReader<ChildStdout>,
    reports: Option<ChildStdin>,
}

impl OneAndOneMore {
    fn start(file: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "child_books_two_reservations",
            "--exact",
            "--ignored",
            "--nocapture",
        ]);
        let command = command.env(FILE, file).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        Self {
            said: BufReader::new(child.stdout.take().unwrap()),
            reports: child.stdin.take(),
            child,
        }
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while line.trim_end() != word {
            line.clear();
            assert_ne!(
                self.said.read_line(&mut line).unwrap(),
                0,
                "the process has ended before {word}"
            );
        }
    }

    fn run(&mut self) {
        self.reports
            .as_mut()
            .unwrap()
            .write_all(b"go on\n")
            .unwrap();
    }

    fn end(mut self, end: End) {
        match end {
            End::Stop => drop(self.reports.take()),
            End::Kill => self.child.kill().unwrap(),
            End::Terminate => {
                let id = self.child.id().to_string();
                let kill = Command::new("kill").args(["-TERM", &id]).status();
                assert!(kill.unwrap().success());
            }
        }
        self.child.wait().unwrap();
    }
}

/// Reports of bookers.
#[derive(Default)]
struct Reports {
    answered: BTreeMap<u64, Reservation>,
    leaving: BTreeSet<u64>,
    left: BTreeSet<u64>,
}

impl Reports {
    fn add(&mut self, line: &str) {
        let (word, rest) = line.trim_end().split_once(' ').unwrap_or_default();
        match word {
            "booked" => {
                let reservation: Reservation = serde_json::from_str(rest).unwrap();
                self.answered.insert(reservation.id, reservation);
            }
            "leaving" => {
                self.leaving.insert(rest.parse().unwrap());
            }
            "left" => {
                self.left.insert(rest.parse().unwrap());
            }
            _ => {}
        }
    }
}

/// Process that books.
struct Booker {
    child: Child,
    lines: Receiver<String>,
}

impl Booker {
    fn start(file: &Path, seed: u64) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "child_books_reservations_until_killed",
            "--exact",
            "--ignored",
            "--nocapture",
        ]);
        command
            .env(FILE, file)
            .env(SEED, seed.to_string())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            // a line without end was cut off by the kill
            while said
                .read_line(&mut line)
                .is_ok_and(|_| line.ends_with('\n'))
            {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Kills the process this long after its first report, or after this time without a report.
    fn run_for(mut self, time: Duration, reports: &mut Reports) {
        let clock = Clock::start();
        let mut till = clock.now() + Duration::from_secs(20);
        let mut has_begun = false;
        while let Ok(line) = self.lines.recv_timeout(clock.until(till)) {
            if !has_begun && line.starts_with("booked") {
                (has_begun, till) = (true, clock.now() + time);
            }
            reports.add(&line);
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.iter().for_each(|line| reports.add(&line));
    }
}

fn open(file: &Path) -> Books {
    let config = Config {
        repack_max: 0,
        policy: lighthaul_booking::books::Quota {
            reservations: 1_000_000,
            ..lighthaul_booking::books::Quota::default()
        }
        .into(),
        ..Config::default()
    };
    let store = Box::new(Sqlite::open(file).unwrap());
    Books::open(store, link(1000), config, || Timestamp(unix_nanos())).unwrap()
}

fn every_one(books: &Books) -> Vec<Reservation> {
    let (mut all, mut after) = (Vec::new(), 0);
    for _ in 0..1000 {
        let page = books
            .list(&operator(), &Filter::default(), (after, 1000))
            .unwrap();
        all.extend(page.items);
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    all
}

/// Returns the calendar without the time before `now`.
fn ahead(mut calendar: Calendar, now: Timestamp) -> Calendar {
    calendar.forget(now.instant());
    calendar
}

const ROUNDS: usize = 50;
const FILE: &str = "LIGHTHAUL_TEST_BOOKS";
const SEED: &str = "LIGHTHAUL_TEST_SEED";
