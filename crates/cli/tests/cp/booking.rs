//! A scheduler, and the commands that use it.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_testkit::drawing;
use serde_json::Value;

use crate::far::{Far, Near, free_port};
use crate::running::{Outcome, Running, event};
use crate::schema::assert_valid;

/// Key without an owner.
const NOBODY: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Scheduler with two links in a row, and its clients.
pub(crate) struct Booking {
    pub(crate) near: Near,
    pub(crate) scheduler: Running,
    pub(crate) url: String,
    /// Command that accepts its key.
    trust: String,
}

impl Booking {
    pub(crate) fn start(name: &str, options: &[&str]) -> Self {
        let near = Near::new(name, None);
        let topology = near.at("network.toml");
        let link = |from, to| {
            format!(
                "[[link]]\nname = \"{from}-{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\ncapacity = \"1Gb/s\"\n"
            )
        };
        fs::write(
            &topology,
            link("paris", "geneva") + &link("geneva", "milan"),
        )
        .unwrap();
        Self::over(near, &topology, options)
    }

    /// A scheduler of the topology in this file.
    pub(crate) fn over(near: Near, topology: &Path, options: &[&str]) -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        let mut serve = near.lighthaul(&["scheduler", "--listen", &listen]);
        serve.arg("--topology").arg(topology);
        if !options.contains(&"--store") {
            serve.arg("--store").arg(near.at("books"));
        }
        serve.arg("--key").arg(near.at("host-key"));
        serve.arg("--tokens").arg(near.at("tokens"));
        serve.args(options);
        let mut scheduler = Running::start(serve);
        let line = scheduler.says("booking at ");
        let url = line
            .split("booking at ")
            .nth(1)
            .unwrap()
            .split(',')
            .next()
            .unwrap();
        let url = url.to_owned();
        let is_known_by_key = !options.contains(&"--no-tls") && !options.contains(&"--certificate");
        let trust = if is_known_by_key {
            let line = scheduler.says("lighthaul trust");
            line.split('`').nth(1).unwrap().to_owned()
        } else {
            String::new()
        };
        Self {
            near,
            scheduler,
            url,
            trust,
        }
    }

    /// Starts a scheduler without TLS again, with the same books.
    pub(crate) fn restart(&self) -> Running {
        let near = &self.near;
        let mut serve = near.lighthaul(&["scheduler", "--no-tls", "--listen"]);
        serve.arg(self.url.strip_prefix("http://").unwrap());
        serve.arg("--topology").arg(near.at("network.toml"));
        serve.arg("--store").arg(near.at("books"));
        serve.arg("--key").arg(near.at("host-key"));
        serve.arg("--tokens").arg(near.at("tokens"));
        let mut again = Running::start(serve);
        again.says("booking at ");
        again
    }

    /// A token of this name and role.
    pub(crate) fn token(&self, name: &str, role: &str) -> String {
        let mut token = self
            .near
            .lighthaul(&["token", name, "--role", role, "--tokens"]);
        token.arg(self.near.at("tokens"));
        self.near.run(token).assert_succeeded().out.concat()
    }

    /// The first line of the scheduler's log that has `words` in it.
    pub(crate) fn says(&mut self, words: &str) -> String {
        self.scheduler.says(words)
    }

    /// The most memory that the scheduler has had, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.scheduler.id());
        let status = fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.unwrap().split_whitespace().next().unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    pub(crate) fn command(&self, token: &str, words: &[&str]) -> Command {
        let mut command = self.near.lighthaul(words);
        command
            .args(["--scheduler", &self.url])
            .env("LIGHTHAUL_SCHEDULER_TOKEN", token)
            .env("COLUMNS", "100");
        command
    }

    /// A copy from paris to milan that books.
    pub(crate) fn copy(&self, token: &str, far: &Far, words: &[&str], paths: &[&str]) -> Command {
        let hosts = ["--book", "--node", "paris", "--far-node", "milan", "--json"];
        let mut copy = far.copy(&[&hosts, words].concat(), paths);
        copy.args(["--scheduler", &self.url])
            .env("LIGHTHAUL_SCHEDULER_TOKEN", token);
        copy
    }

    pub(crate) fn run(&self, token: &str, words: &[&str]) -> Outcome {
        self.near.run(self.command(token, words))
    }
}

/// The one event that a command printed.
pub(crate) fn one(outcome: &Outcome) -> Value {
    assert_eq!(outcome.out.len(), 1, "{outcome:?}");
    event(&outcome.out[0])
}

#[test]
fn scheduler_key_must_be_trusted_before_requests() {
    let booking = Booking::start("booking", &[]);
    let ada = booking.token("ada", "user");
    let wanted = ["--size", "125MB", "--margin", "0"];
    let ask = |verb: &str, more: &[&str]| {
        let words = [&[verb, "paris", "milan"], wanted.as_slice(), more].concat();
        booking.run(&ada, &words)
    };
    // a token is not sent to an unknown scheduler
    ask("quote", &[]).assert_failed(13, "is not known here: compare it with");
    let words: Vec<_> = booking.trust.split(' ').skip(1).collect();
    booking
        .near
        .run(booking.near.lighthaul(&words))
        .assert_succeeded();
    let quote = ask("quote", &[]).assert_succeeded();
    assert!(quote.out[0].starts_with("it would end by 20"), "{quote:?}");
    assert!(
        quote.out[1].contains("paris-geneva, geneva-milan"),
        "{quote:?}"
    );
    let booked = one(&ask("book", &["--json"]).assert_succeeded());
    assert_eq!(
        (&booked["state"], &booked["owner"]),
        (&"provisioned".into(), &"ada".into())
    );
    let far = ask("book", &["--json", "--start", "2099-01-01T00:00"])
        .assert_failed(40, "the horizon of the calendar");
    let tentative = one(&far);
    assert_eq!(
        (&tentative["type"], &tentative["code"]),
        (&"error".into(), &40.into())
    );
    let held = one(&ask("book", &["--json", "--tentative"]).assert_succeeded());
    assert_eq!(held["state"], "reserved");
    let id = held["id"].to_string();
    let taken = booking
        .run(&ada, &["book", "--commit", &id])
        .assert_succeeded();
    assert!(
        taken.out[0].starts_with(&format!("reservation {id} of ada is provisioned, ends by ")),
        "{taken:?}"
    );
    // a process that cannot reach the store ends with a message, and the books stay
    booking.scheduler.signal("TERM");
    let ended = booking.scheduler.finish();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn reservations_are_listed_and_canceled() {
    let booking = Booking::start("booking-list", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    let none = booking.run(&ada, &["reservations"]).assert_succeeded();
    assert_eq!(none.out, ["no reservations match"]);
    let words = ["book", "--json", "paris", "milan", "--size", "20GB"];
    let id = one(&booking.run(&ada, &words).assert_succeeded())["id"].to_string();
    let list = booking.run(&ada, &["reservations"]).assert_succeeded();
    assert_eq!(
        (list.out.len(), list.out[0].contains("ends by")),
        (2, true),
        "{list:?}"
    );
    assert_valid(
        &booking
            .run(&ada, &["reservations", "--json"])
            .assert_succeeded(),
    );
    let whole = booking.run(&ada, &["reservations", &id]).assert_succeeded();
    assert!(
        whole
            .out
            .iter()
            .any(|line| line.contains("committed by ada")),
        "{whole:?}"
    );
    let cancelled = booking
        .run(&ada, &["cancel", &id, "--why", "enough"])
        .assert_succeeded();
    assert_eq!(
        cancelled.out,
        [format!("reservation {id} of ada is terminated")]
    );
    booking
        .run(&ada, &["cancel", &id])
        .assert_failed(40, "reserve again");
    // an unknown reservation does not prevent the others
    let next = one(&booking.run(&ada, &words).assert_succeeded())["id"].to_string();
    let both = booking
        .run(&ada, &["cancel", "99", &next])
        .assert_failed(1, "1 of 2 reservations were not canceled: 99: ");
    assert_eq!(
        both.out,
        [format!("reservation {next} of ada is terminated")]
    );
    booking
        .run(&ada, &["reservations", "--owner", "bob"])
        .assert_failed(13, "ask an operator");
}

#[test]
fn reservations_are_extended_and_shrunk() {
    let booking = Booking::start("booking-modify", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    let book = |words: &[&str]| {
        let words = [&["book", "--json", "paris", "milan"], words].concat();
        one(&booking.run(&ada, &words).assert_succeeded())
    };
    let change = |words: &[&str]| {
        let words = [words, &["--json"]].concat();
        one(&booking.run(&ada, &words).assert_succeeded())
    };
    let sized = book(&["--size", "20GB"]);
    let id = sized["id"].to_string();
    let more = change(&["modify", &id, "--size", "30GB", "--why", "more runs"]);
    assert_eq!(more["request"]["size"], 30_000_000_000_u64);
    assert!(more["promised_end"].as_str() > sized["promised_end"].as_str());
    assert_eq!(
        more["journal"].as_array().unwrap().last().unwrap()["why"],
        "more runs"
    );
    let less = change(&["modify", &id, "--size", "10GB"]);
    assert!(less["promised_end"].as_str() < sized["promised_end"].as_str());
    booking
        .run(&ada, &["extend", &id, "--size", "5GB"])
        .assert_failed(1, "");
    booking
        .run(&ada, &["extend", &id, "--hold", "2h"])
        .assert_failed(1, &format!("reservation {id} has a size: use --size"));
    booking.run(&ada, &["cancel", &id]).assert_succeeded();

    let held = book(&["--hold", "1h"]);
    let id = held["id"].to_string();
    let end = held["promised_end"].as_str().unwrap();
    let extended = change(&["extend", &id, "--hold", "3h"]);
    assert!(extended["promised_end"].as_str().unwrap() > end);
    let shrunk = change(&["modify", &id, "--hold", "30m"]);
    assert!(shrunk["promised_end"].as_str().unwrap() < end);
    let again = change(&["modify", &id, "--by", end]);
    assert_eq!(again["promised_end"], end);
    let start = held["steps"][0]["from"].as_str().unwrap();
    booking
        .run(&ada, &["modify", &id, "--by", start])
        .assert_failed(1, "--by is before the start");
    booking
        .run(&ada, &["modify", &id, "--size", "1GB"])
        .assert_failed(1, "has a duration: use --hold or --by");
    booking.run(&ada, &["modify", &id]).assert_failed_to_parse();
}

#[test]
fn impossible_bookings_are_refused_with_a_sentence() {
    let booking = Booking::start("booking-bad", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    for (words, code, says) in [
        ("paris milan --size 0", 1, "at least 1 byte"),
        ("paris milan --size 8388608TiB", 40, "ask for less"),
        (
            "paris milan --size 1GB --rate-max 2Gb/s",
            1,
            "at most 1.000 Gb/s",
        ),
        (
            "paris milan --size 900TB --by 23:59:59",
            40,
            "the transfer cannot end in time: ask for ",
        ),
        (
            "paris milan --size 1GB --start 2020-01-01T00:00",
            1,
            "the start has passed",
        ),
        ("paris rome --size 1GB", 1, "rome"),
        ("--size 1GB", 1, "either from and to, or path"),
        ("paris milan", 1, "(--size) or hold"),
    ] {
        let words: Vec<&str> = ["book"].into_iter().chain(words.split(' ')).collect();
        booking.run(&ada, &words).assert_failed(code, says);
    }
    for words in [
        "--size 9EB",
        "--size 1GB --hold 1h",
        "--by noon --size 1GB",
        "--interface",
    ] {
        let words: Vec<&str> = ["book", "paris", "milan"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        booking.run(&ada, &words).assert_failed_to_parse();
    }
    booking
        .run("eve", &["reservations"])
        .assert_failed(13, "unknown or has expired");
    booking
        .run(&ada, &["reservations", "77"])
        .assert_failed(1, "77");
    booking
        .run(&ada, &["calendar", "paris-rome"])
        .assert_failed(1, "paris-rome");
    booking
        .run(&ada, &["calendar", "--plot", "x.jpg"])
        .assert_failed(1, "FILE.svg or FILE.png");
    for (url, code, says) in [
        ("http://127.0.0.1:1", 10, "cannot reach the scheduler"),
        ("127.0.0.1", 1, "https://HOST:4811"),
    ] {
        let ask = ["reservations", "--scheduler", url];
        let outcome = booking.near.run(booking.near.lighthaul(&ask));
        outcome.assert_failed(code, says);
    }
}

#[test]
fn shown_times_are_local_and_accepted_as_input() {
    let booking = Booking::start("booking-zone", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    // a zone half an hour off, in any case
    let run = |words: &[&str]| {
        let mut command = booking.command(&ada, words);
        command.env("TZ", "XST-3:30");
        booking.near.run(command)
    };
    let words = ["book", "paris", "milan", "--size", "20.000001GB"];
    let booked = run(&words).assert_succeeded();
    let end = booked.out[0].split("ends by ").nth(1).unwrap();
    assert!(end.ends_with(" +03:30") && !end.contains('.'), "{booked:?}");
    let list = run(&["reservations", "--json"]).assert_succeeded();
    let promised = one(&list)["promised_end"].clone();
    let promised = promised.as_str().unwrap();
    assert!(promised.ends_with('Z'), "{promised}");
    let exact: Timestamp = promised.parse().unwrap();
    assert_eq!(end.parse(), Ok(exact.second_after()));
    // the shown times, and the offered one, are taken as they are
    run(&["quote", "paris", "milan", "--size", "1MB", "--start", end]).assert_succeeded();
    let late = [&words[..], &["--start", end]].concat();
    let refused =
        run(&[&late[..], &["--by", end]].concat()).assert_failed(40, "ask for an end at ");
    let offer = refused.err.concat();
    let offer = offer.split("an end at ").nth(1).unwrap();
    let offer = offer.split(' ').next().unwrap();
    assert!(offer.ends_with("+03:30") && offer.len() == 25, "{offer}");
    run(&[&late[..], &["--by", offer]].concat()).assert_succeeded();
    let calendar = run(&["calendar", "--for", "20m"]).assert_succeeded();
    assert!(
        calendar.out.iter().any(|line| line.contains("UTC+03:30  ")),
        "{calendar:#?}"
    );
}

#[test]
fn calendar_is_drawn_as_text_and_picture() {
    let booking = Booking::start("booking-calendar", &["--no-tls"]);
    let (ada, olga) = (
        booking.token("ada", "user"),
        booking.token("olga", "operator"),
    );
    for rate in ["250Mb/s", "750Mb/s", "500Mb/s"] {
        let words = [
            "book",
            "paris",
            "milan",
            "--size",
            "20GB",
            "--rate-max",
            rate,
        ];
        booking.run(&ada, &words).assert_succeeded();
    }
    let drawn = booking
        .run(&olga, &["calendar", "--for", "20m"])
        .assert_succeeded();
    for line in &drawn.out {
        assert!(
            line.chars().count() <= 100 || line.contains("from "),
            "{line}"
        );
    }
    assert!(
        drawn
            .out
            .iter()
            .any(|line| line.contains("ada ") && line.contains('█')),
        "{drawn:#?}"
    );
    let json = booking
        .run(&olga, &["calendar", "--json", "paris-geneva"])
        .assert_succeeded();
    assert_eq!(assert_valid(&json)[0]["allocations"][0]["owner"], "ada");
    for name in ["busy.svg", "busy.png"] {
        let path = booking.near.at(name);
        let words = ["calendar", "--for", "20m", "--plot", path.to_str().unwrap()];
        booking.run(&olga, &words).assert_succeeded();
        let octets = fs::read(&path).unwrap();
        if name.ends_with("svg") {
            assert!(octets.starts_with(b"<svg ") && octets.ends_with(b"</svg>\n"));
            continue;
        }
        let picture = drawing(Cursor::new(&octets));
        assert!(picture.drawn > 1000, "nothing is drawn on it: {picture:?}");
    }
}

#[test]
fn reservations_survive_a_scheduler_restart() {
    let mut booking = Booking::start("booking-kill", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    let words = [
        "book", "--json", "paris", "milan", "--size", "20GB", "--start", "23:59:59",
    ];
    let made = one(&booking.run(&ada, &words).assert_succeeded());
    booking.scheduler.kill();
    let _again = booking.restart();
    let id = made["id"].to_string();
    assert_eq!(
        one(&booking
            .run(&ada, &["reservations", "--json", &id])
            .assert_succeeded()),
        made
    );
}

#[test]
fn booked_copy_follows_its_reservation_and_releases_unused_capacity() {
    let booking = Booking::start("booking-copy", &["--no-tls"]);
    let far = Far::start("booking-copy-far", &[]);
    let ada = booking.token("ada", "user");
    let source = far.near.at("source");
    fs::write(&source, vec![7; 3_000_000]).unwrap();
    let target = far.place("copy");
    let copy = |more: &[&str]| {
        let paths = [source.to_str().unwrap(), target.as_str()];
        far.near.run(booking.copy(&ada, &far, more, &paths))
    };
    let state = |id: &Value| {
        let words = ["reservations", "--json", &id.to_string()];
        one(&booking.run(&ada, &words).assert_succeeded())["state"].clone()
    };
    let done = assert_valid(&copy(&["--rate", "100Mb/s"]).assert_succeeded());
    let of = |kind: &str| done.iter().find(|event| event["type"] == kind).unwrap();
    assert_eq!(of("start")["protocol"], "vbtp");
    assert_eq!(of("booked")["path"][1], "geneva-milan");
    assert_eq!(of("booked")["steps"][0]["rate_bps"], 100_000_000);
    assert_eq!(state(&of("released")["reservation"]), "released");
    assert_eq!(
        fs::read(far.target.join("copy")).unwrap(),
        vec![7; 3_000_000]
    );
    // a copy that fails releases its reservation
    let failed = copy(&["--book-size", "1TB", "--files-from", "/nowhere"]);
    let events = failed.assert_failed(3, "/nowhere").events();
    let booked = events.iter().find(|event| event["type"] == "booked");
    assert_eq!(state(&booked.unwrap()["reservation"]), "released");
    copy(&["--book-size", "900TB", "--by", "23:59:59"])
        .assert_failed(40, "the transfer cannot end in time: ask for ");
    let soon = Timestamp(unix_nanos() + 20_000_000_000).to_string();
    let late = copy(&["--book-size", "20GB", "--by", &soon]);
    let late = late.assert_failed(40, ": use --deadline ").err.concat();
    let offer = late.split("--deadline ").nth(1).unwrap();
    let offer = offer.split(')').next().unwrap();
    assert!(offer.parse::<Timestamp>().is_ok(), "{late}");
    copy(&["--far-node", "rome"]).assert_failed_to_parse();
}

#[test]
fn pull_is_measured_by_a_dry_run_before_booking() {
    let booking = Booking::start("booking-pull", &["--no-tls"]);
    let far = Far::start("booking-pull-far", &[]);
    let ada = booking.token("ada", "user");
    fs::create_dir(far.target.join("tree")).unwrap();
    fs::write(far.target.join("tree/large"), vec![7; 3_000_000]).unwrap();
    fs::write(far.target.join("tree/left.out"), vec![7; 2_000_000]).unwrap();
    let (source, target) = (far.place("tree"), far.near.at("here"));
    let copy = || {
        let hosts = ["--book", "--node", "milan", "--far-node", "paris", "--json"];
        let more = ["--rate", "100Mb/s", "--exclude", "*.out"];
        let paths = [source.as_str(), target.to_str().unwrap()];
        let mut copy = far.copy(&[hosts.as_slice(), more.as_slice()].concat(), &paths);
        copy.args(["--scheduler", &booking.url])
            .env("LIGHTHAUL_SCHEDULER_TOKEN", &ada);
        assert_valid(&far.near.run(copy).assert_succeeded())
    };
    let done = copy();
    let of = |kind: &str| done.iter().find(|event| event["type"] == kind).unwrap();
    let steps = of("booked")["steps"].as_array().unwrap();
    let time =
        |step: &Value, end: &str| -> Timestamp { step[end].as_str().unwrap().parse().unwrap() };
    let nanos = steps
        .iter()
        .map(|step| time(step, "till").0 - time(step, "from").0);
    // 3 MB with a margin for headers and losses, at 100 Mb/s
    let nanos: u64 = nanos.sum();
    assert!((240_000_000..280_000_000).contains(&nanos), "{nanos}");
    let promised = time(of("booked"), "promised_end");
    assert!(promised > time(&steps[steps.len() - 1], "till"));
    assert_eq!(of("start")["protocol"], "vbtp");
    assert_eq!(fs::read(target.join("large")).unwrap(), vec![7; 3_000_000]);
    // no capacity is reserved for files that are up to date
    assert!(copy().iter().all(|event| event["type"] != "booked"));
}

#[test]
fn waiting_copy_starts_when_capacity_is_freed() {
    let booking = Booking::start("booking-early", &["--no-tls"]);
    let far = Far::start("booking-early-far", &[]);
    let ada = booking.token("ada", "user");
    let words = ["book", "--json", "paris", "milan", "--size", "90GB"];
    let before = one(&booking.run(&ada, &words).assert_succeeded());
    let source = far.near.at("source");
    fs::write(&source, vec![7; 1_000_000]).unwrap();
    let target = far.place("copy");
    let paths = [source.to_str().unwrap(), target.as_str()];
    let mut copy = Running::start(booking.copy(&ada, &far, &[], &paths));
    copy.prints("booked");
    // twelve minutes are left to others
    let id = before["id"].to_string();
    booking.run(&ada, &["cancel", &id]).assert_succeeded();
    let events = assert_valid(&copy.finish().assert_succeeded());
    let booked = |event: &&Value| event["type"] == "booked";
    let starts = events.iter().filter(booked);
    let starts: Vec<_> = starts.map(|event| &event["steps"][0]["from"]).collect();
    assert_eq!(starts.len(), 2, "{events:?}");
    assert!(starts[1].as_str() < starts[0].as_str(), "{starts:?}");
    assert_eq!(
        fs::read(far.target.join("copy")).unwrap(),
        vec![7; 1_000_000]
    );
}

#[test]
fn failed_booking_of_a_copy_is_reported() {
    let booking = Booking::start("booking-copy-bad", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    let run = |words: &[&str]| booking.run(&ada, &[&["cp"], words].concat());
    let (here, far) = ("/etc/hostname", "lh://127.0.0.1:1/x");
    run(&["--book", here, "/tmp/x"]).assert_failed(1, "neither side is remote");
    let piped = ["--book", "--files-from", "-", far, "/tmp/x"];
    run(&piped).assert_failed(1, "give it with --book-size");
    run(&["--book", "--pin", NOBODY, far, "/tmp/x"]).assert_failed(10, "127.0.0.1");
    let rome = ["--book", "--book-size", "1MB", "--node", "rome", here, far];
    run(&rome).assert_failed(1, "rome");
    // as a counter-offer has it
    let by = ["--by", "2031-11-22T07:45:58.443056638Z"];
    run(&[rome.as_slice(), &by].concat()).assert_failed(1, "rome");
    let never = ["--by", "2031-02-30T00:00"];
    run(&[rome.as_slice(), &never].concat()).assert_failed_to_parse();
    let alone = ["cp", "--by", "18:00", here, far];
    booking
        .near
        .run(booking.near.lighthaul(&alone))
        .assert_failed_to_parse();
}
