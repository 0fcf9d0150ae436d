//! Paths whose capacity a scheduler books.

use std::fs;
use std::process::Command;

use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::{Bytes, NewOutage, NewReservation, Reservation, Timestamp};
use lighthaul_io::host::clock::unix_nanos;

use crate::commands::{LIGHTHAUL, Pair, in_an_hour, run};
use crate::running::{Running, becomes_true};

/// Two domains, and a scheduler whose link `lambda` has no capacity of its own.
struct Site {
    pair: Pair,
    url: String,
    operator: Client,
    user: Client,
    _scheduler: Running,
}

impl Site {
    fn start(name: &str) -> Self {
        let pair = Pair::start(name, || Command::new(LIGHTHAUL));
        let at = |file: &str| pair.scratch.at(file);
        let link =
            "[[link]]\nname = \"lambda\"\nfrom = \"a\"\nto = \"b\"\ncapacity = \"300Mb/s\"\n";
        fs::write(at("network.toml"), link).unwrap();
        let token = |name: &str, role: &str| {
            let mut token = Command::new(LIGHTHAUL);
            token.args(["token", name, "--role", role, "--tokens"]);
            token.arg(at("tokens"));
            run(token).assert_succeeded().out.concat()
        };
        let (operator, user) = (token("olga", "operator"), token("ada", "user"));
        fs::write(at("token"), &operator).unwrap();
        let mut serve = Command::new(LIGHTHAUL);
        serve.args(["scheduler", "--no-tls", "--listen", "127.0.0.1:0"]);
        for (flag, file) in [
            ("--topology", "network.toml"),
            ("--store", "books"),
            ("--key", "scheduler-key"),
            ("--tokens", "tokens"),
        ] {
            serve.arg(flag).arg(at(file));
        }
        let mut scheduler = Running::start(serve);
        let line = scheduler.says("booking at ");
        let url = line.split("booking at ").nth(1).unwrap();
        let url = url.split([' ', ',']).next().unwrap().to_owned();
        let client = |token| Client::new(&url, ServerTrust::certificate(), Some(token)).unwrap();
        Self {
            operator: client(operator),
            user: client(user),
            url,
            pair,
            _scheduler: scheduler,
        }
    }

    /// Plans an outage of the link for all times.
    fn close_link(&self) {
        let never = NewOutage {
            link: "lambda".to_owned(),
            from: None,
            till: "2100-01-01T00:00:00Z".parse().unwrap(),
            why: String::new(),
        };
        self.operator.outage(&never).unwrap();
    }

    /// Starts to offer a path of this rate for a minute, which begins in an hour.
    fn offer(&self, rate: &str, link: &str) -> Running {
        let mut offer = Command::new(LIGHTHAUL);
        offer.args([
            "path",
            "1:101",
            "2:102",
            "--hold",
            "60s",
            "--start",
            &in_an_hour(),
        ]);
        offer.args(["--rate", rate, "--offer-to", &self.url, "--link", link]);
        let token = self.pair.scratch.at("token");
        offer.arg("--scheduler-token").arg(token).arg("--socket");
        offer.arg(self.pair.scratch.at("1.sock"));
        Running::start(offer)
    }

    /// Books this many bytes from `a` to `b`, which must end within two hours.
    fn book(&self, bytes: u64) -> Result<Reservation, ClientError> {
        let by = unix_nanos() + 7_200_000_000_000;
        self.user.reserve(&NewReservation {
            from: Some("a".to_owned()),
            to: Some("b".to_owned()),
            size: Some(Bytes(bytes)),
            by: Some(Timestamp(by)),
            ..NewReservation::default()
        })
    }

    fn assert_no_path(&self) {
        becomes_true("no domain holds a path", || {
            [1, 2].into_iter().all(|me| {
                let listed = self.pair.ask(me, &["path", "list"]).assert_succeeded();
                !listed.out.concat().contains("committed")
            })
        });
    }
}

#[test]
fn scheduler_books_inside_a_path_until_the_path_is_canceled() {
    let site = Site::start("offer-inside");
    site.close_link();
    assert!(site.book(1_000_000).is_err(), "there is no path");
    let mut offer = site.offer("300Mb/s", "lambda");
    let made = offer.prints("path ");
    let id = made.split_whitespace().nth(1).unwrap().to_owned();
    offer.prints("link lambda has the capacity of the path");
    let (first, last) = (site.book(375_000_000), site.book(375_000_000));
    let (first, last) = (first.unwrap(), last.unwrap());
    let shown = site.pair.ask(1, &["path", "show", &id, "--json"]);
    let path = crate::running::event(&shown.assert_succeeded().out[0]);
    let time =
        |name: &str| -> Timestamp { path["steps"][0][name].as_str().unwrap().parse().unwrap() };
    let (begin, end) = (time("from"), time("till"));
    let steps: Vec<_> = first.steps.iter().chain(&last.steps).collect();
    assert!(
        steps
            .iter()
            .all(|step| begin <= step.from && step.till <= end),
        "{steps:?} in {path}"
    );
    // both have the whole rate, one after the other
    assert!(
        steps.iter().all(|step| step.rate_bps == 300_000_000),
        "{steps:?}"
    );
    assert!(first.promised_end <= last.steps[0].from);
    assert!(site.book(3_000_000_000).is_err(), "the path carries less");
    offer.signal("INT");
    let done = offer.finish().assert_succeeded();
    let lines = done.out.concat();
    assert!(lines.contains("link lambda is closed"), "{lines}");
    assert!(lines.contains(&format!("path {id} is released")), "{lines}");
    assert!(site.book(1_000_000).is_err(), "the path has ended");
    site.assert_no_path();
}

#[test]
fn link_closes_when_the_path_is_canceled_by_another_command() {
    let site = Site::start("offer-lost");
    site.close_link();
    let mut offer = site.offer("300Mb/s", "lambda");
    let made = offer.prints("path ");
    let id = made.split_whitespace().nth(1).unwrap();
    offer.prints("link lambda has the capacity of the path");
    site.book(1_000_000).unwrap();
    site.pair.ask(1, &["path", "cancel", id]).assert_succeeded();
    offer.finish().assert_failed(40, "the path has ended early");
    assert!(site.book(1_000_000).is_err(), "the path has ended");
    site.assert_no_path();
}

#[test]
fn path_that_cannot_be_offered_is_released() {
    let site = Site::start("offer-refused");
    let offer = |rate, link| site.offer(rate, link).finish();
    offer("300Mb/s", "lambda").assert_failed(1, "plan an outage for all times first");
    site.close_link();
    offer("200Mb/s", "lambda").assert_failed(
        1,
        "link lambda has 300.000 Mb/s, and the path carries 200.000 Mb/s",
    );
    offer("300Mb/s", "other").assert_failed(1, "has no link other");
    assert!(site.book(1_000_000).is_err());
    site.assert_no_path();
    let words = [
        "path",
        "1:101",
        "2:102",
        "--size",
        "1MB",
        "--offer-to",
        "http://x",
        "--link",
        "y",
    ];
    let refused = site.pair.ask(1, &words);
    assert_eq!(refused.code, Some(1), "{refused:?}");
}
