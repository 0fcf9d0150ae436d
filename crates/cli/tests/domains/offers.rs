//! Paths whose capacity a scheduler books.

use std::process::Command;

use lighthaul_booking_client::json::{Step, Timestamp};

use crate::commands::{LIGHTHAUL, Pair, in_an_hour};
use crate::link_scheduler::{LinkScheduler, Relay};
use crate::running::{Running, becomes_true};

/// Two domains, and a scheduler whose link has no capacity of its own.
struct Site {
    pair: Pair,
    scheduler: LinkScheduler,
}

impl Site {
    fn start(name: &str) -> Self {
        let pair = Pair::start(name, || Command::new(LIGHTHAUL));
        let scheduler = LinkScheduler::start(&pair.scratch, "300Mb/s");
        Self { pair, scheduler }
    }

    /// Starts to offer a path of this rate for a minute, which begins in an hour, to the scheduler at a URL.
    fn offer_to(&self, url: &str, rate: &str, link: &str) -> Running {
        let start = in_an_hour();
        let path = [
            "1:101", "2:102", "--hold", "60s", "--start", &start, "--rate", rate,
        ];
        let socket = self.pair.scratch.at("1.sock");
        self.scheduler.offer(&path, (url, link), &socket)
    }

    fn offer(&self, rate: &str, link: &str) -> Running {
        self.offer_to(&self.scheduler.url, rate, link)
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
    site.scheduler.close_link();
    assert!(site.scheduler.book(1_000_000).is_err(), "there is no path");
    let mut offer = site.offer("300Mb/s", "lambda");
    let made = offer.prints("path ");
    let id = made.split_whitespace().nth(1).unwrap().to_owned();
    offer.prints("link lambda has the capacity of the path");
    let (first, last) = (
        site.scheduler.book(375_000_000),
        site.scheduler.book(375_000_000),
    );
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
    assert!(
        site.scheduler.book(3_000_000_000).is_err(),
        "the path carries less"
    );
    offer.signal("INT");
    let done = offer.finish().assert_succeeded();
    let lines = done.out.concat();
    assert!(lines.contains("link lambda is closed"), "{lines}");
    assert!(lines.contains(&format!("path {id} is released")), "{lines}");
    assert!(
        site.scheduler.book(1_000_000).is_err(),
        "the path has ended"
    );
    site.assert_no_path();
}

#[test]
fn link_closes_when_the_path_is_canceled_by_another_command() {
    let site = Site::start("offer-lost");
    site.scheduler.close_link();
    let mut offer = site.offer("300Mb/s", "lambda");
    let made = offer.prints("path ");
    let id = made.split_whitespace().nth(1).unwrap();
    offer.prints("link lambda has the capacity of the path");
    site.scheduler.book(1_000_000).unwrap();
    site.pair.ask(1, &["path", "cancel", id]).assert_succeeded();
    offer.finish().assert_failed(40, "the path has ended early");
    assert!(
        site.scheduler.book(1_000_000).is_err(),
        "the path has ended"
    );
    site.assert_no_path();
}

/// The scheduler makes a change, and its answer is lost with the connection.
#[test]
fn link_opens_once_although_an_answer_of_the_scheduler_is_lost() {
    let site = Site::start("offer-cut");
    site.scheduler.close_link();
    // the outage is divided around the path: a part before, a part after, and then it is lifted
    for (method, nth) in [("POST", 1), ("POST", 2), ("DELETE", 1)] {
        let relay = Relay::start(&site.scheduler.url, (method, nth));
        let mut offer = site.offer_to(&relay.url, "300Mb/s", "lambda");
        offer.prints("link lambda has the capacity of the path");
        assert!(relay.has_cut(), "answer {nth} to {method}");
        let outages = site.scheduler.outages();
        assert_eq!(outages.len(), 2, "answer {nth} to {method}: {outages:?}");
        let booked = site.scheduler.book(375_000_000).unwrap();
        let (begin, end) = (outages[0].1, outages[1].0);
        let inside = |step: &Step| begin <= step.from && step.till <= end;
        assert!(booked.steps.iter().all(inside), "{booked:?} {outages:?}");
        offer.signal("INT");
        let done = offer.finish().assert_succeeded();
        let lines = done.out.concat();
        assert!(lines.contains("link lambda is closed"), "{lines}");
        assert!(
            site.scheduler.book(1_000_000).is_err(),
            "the path has ended"
        );
        site.scheduler.lift_all();
        site.scheduler.close_link();
    }
    site.assert_no_path();
}

#[test]
fn path_that_cannot_be_offered_is_released() {
    let site = Site::start("offer-refused");
    let offer = |rate, link| site.offer(rate, link).finish();
    offer("300Mb/s", "lambda").assert_failed(1, "plan an outage for all times first");
    site.scheduler.close_link();
    offer("200Mb/s", "lambda").assert_failed(
        1,
        "link lambda has 300.000 Mb/s, and the path carries 200.000 Mb/s",
    );
    offer("300Mb/s", "other").assert_failed(1, "has no link other");
    assert!(site.scheduler.book(1_000_000).is_err());
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
