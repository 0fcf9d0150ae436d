//! A path over three domains with different devices, from the request to the end. `make demo-domains` runs it, too.

use std::fs;
use std::path::PathBuf;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_domains::RecordStore;
use lighthaul_stargate::DomainId;

use crate::lab::{self, DOMAINS, Domains};
use crate::link_scheduler::LinkScheduler;
use crate::running::{Running, becomes_true, event};

const BYTES: u64 = 32_000_000;
/// Rates of a copy that fits a path of 40 Mb/s.
const COPY_RATES: &str = "0s-30s 32Mb/s";

#[test]
fn copy_across_three_domains_survives_a_killed_domain() {
    let name = "copy_across_three_domains_survives_a_killed_domain";
    let Some(mut domains) = Domains::start(name) else {
        return;
    };
    let say = |domains: &Domains, text: &str| domains.transcript.say(text);
    say(
        &domains,
        "three domains run, with HTB, a TL1 switch and a driver program:",
    );
    domains.show(&["domains"]);
    assert!(!domains.is_open(), "packets pass without a path");
    say(
        &domains,
        "no packet passes from a to b; a path of 40 Mb/s is requested:",
    );
    let path = domains.show(&["path", "a", "b", "--rate", "40Mb/s", "--hold", "60s"]);
    let id = id_of(&path);
    assert!(
        path[1].contains("101 --[ 1 one ]-- 12 --[ 2 two ]-- 23 --[ 3 ]-- 103"),
        "{path:?}"
    );
    becomes_true("the path is open", || domains.is_open());
    let bytes = copy_while_a_domain_is_killed(&mut domains);
    let rest = BYTES / 10 * 9;
    assert!(
        bytes > rest,
        "{bytes} of {BYTES} went through the class of the path"
    );
    let books = DOMAINS.map(|host| domains.book(host));
    assert_eq!(books[0].len(), 1);
    assert_eq!((&books[0], &books[1]), (&books[1], &books[2]));
    say(
        &domains,
        &format!("the books of all domains agree: {}", books[0][0]),
    );
    domains.show(&["path", "cancel", &id]);
    assert_freed(&domains);
    say(
        &domains,
        "canceled: all devices and books are empty, and no packet passes",
    );
    say(&domains, "the whole capacity can be booked again:");
    let all = domains.show(&["path", "1:101", "3:103", "--rate", "80Mb/s", "--hold", "5s"]);
    let id = id_of(&all);
    domains.show(&["path", "cancel", &id[..8]]);
    assert_freed(&domains);
    domains.transcript.assert_in_guide();
    stop(domains);
}

#[test]
fn copy_crosses_an_offered_path() {
    let name = "copy_crosses_an_offered_path";
    let Some(domains) = Domains::start(name) else {
        return;
    };
    let scheduler = LinkScheduler::start(&domains.far.near, "40Mb/s");
    scheduler.close_link();
    let path = ["a", "b", "--rate", "40Mb/s", "--hold", "60s"];
    let to = (scheduler.url.as_str(), "lambda");
    let mut offer = scheduler.offer(&path, to, &domains.socket("one"));
    offer.prints("link lambda has the capacity of the path");
    let booked = scheduler.book(BYTES).unwrap();
    let path = domains.status("one")["paths"][0].clone();
    let time =
        |name: &str| -> Timestamp { path["steps"][0][name].as_str().unwrap().parse().unwrap() };
    for step in &booked.steps {
        let is_inside = time("from") <= step.from && step.till <= time("till");
        assert!(is_inside && step.rate_bps <= 40_000_000, "{step:?} {path}");
    }
    becomes_true("the path is open", || domains.is_open());
    let is_carried = |domains: &Domains| {
        domains.program_rates() == [40_000_000]
            && domains.switch.patches().len() == 2
            && has_class(domains, 40_000_000)
    };
    assert!(is_carried(&domains), "a device has another rate");
    start_copy(&domains).finish().assert_succeeded();
    let bytes = class_bytes(&domains);
    assert!(bytes > BYTES / 10 * 9, "{bytes} of {BYTES}");
    assert!(is_carried(&domains), "a device has another rate");
    offer.signal("INT");
    let done = offer.finish().assert_succeeded().out.concat();
    assert!(done.contains("link lambda is closed"), "{done}");
    assert_freed(&domains);
    assert!(scheduler.book(1_000_000).is_err(), "the path has ended");
    stop(domains);
}

/// Copies that must keep up with the time of their path.
mod quiet {
    use super::*;

    /// A second path between the same ports changes the rate of their circuit twice, at each of three devices.
    #[test]
    fn copy_loses_no_packets_at_changes_of_the_circuit_rate() {
        let Some(domains) =
            Domains::start_quiet("copy_loses_no_packets_at_changes_of_the_circuit_rate")
        else {
            return;
        };
        let first = ["path", "a", "b", "--rate", "40Mb/s", "--hold", "60s"];
        let id = id_of(&domains.show(&first));
        becomes_true("the path is open", || domains.is_open());
        let copy = start_copy(&domains);
        becomes_true("the copy is on its way", || {
            class_bytes(&domains) > BYTES / 16
        });
        domains.show(&["path", "a", "b", "--rate", "40Mb/s", "--hold", "3s"]);
        let has = |rate, patches| {
            domains.program_rates() == [rate]
                && domains.switch.patches().len() == patches
                && has_class(&domains, rate)
        };
        becomes_true("all devices carry both paths", || has(80_000_000, 4));
        becomes_true("all devices carry one path", || has(40_000_000, 2));
        let done = copy.finish().assert_succeeded();
        let summary = event(done.out.last().unwrap());
        let count = |name: &str| summary[name].as_u64().unwrap();
        let (sent, resent) = (count("packets"), count("packets_resent"));
        let dropped = count("buffer_drops");
        println!(
            "{sent} packets sent while the rate rose and fell, {resent} of them again; the receiving host dropped {dropped}"
        );
        assert!(sent > 20_000, "{summary}");
        assert!(
            resent <= dropped,
            "packets were lost on the path: {summary}"
        );
        assert_eq!(domains.gate.closings(), 0, "the light went out");
        domains.show(&["path", "cancel", &id]);
        assert_freed(&domains);
        stop(domains);
    }

    /// No packet passes from `a` to `b` before the copy has its path.
    #[test]
    fn copy_books_and_releases_its_own_path() {
        let Some(mut domains) = Domains::start_quiet("copy_books_and_releases_its_own_path") else {
            return;
        };
        let memory = InMemory::new();
        domains.far.target.clone_from(&memory.0);
        assert!(!domains.is_open(), "packets pass without a path");
        let source = domains.far.near.file("source", BYTES);
        let place = domains.far.place("copy");
        let socket = domains.socket("one");
        let options = [
            "--book-path",
            "--domain-socket",
            socket.to_str().unwrap(),
            "--node",
            "a",
            "--far-node",
            "b",
            "--rate",
            "40Mb/s",
            "--json",
        ];
        let copy = domains
            .far
            .copy(&options, &[source.to_str().unwrap(), &place]);
        let done = Running::start(copy).finish().assert_succeeded();
        let events: Vec<_> = done.out.iter().map(|line| event(line)).collect();
        let stages = events.iter().filter(|one| one["type"] == "path");
        let stages: Vec<_> = stages.map(|one| one["stage"].as_str().unwrap()).collect();
        assert_eq!(stages, ["committed", "released"]);
        let start = events.iter().find(|one| one["type"] == "start").unwrap();
        assert_eq!(start["protocol"], "vbtp");
        let copied = fs::read(domains.far.target.join("copy")).unwrap();
        assert!(copied == fs::read(&source).unwrap(), "the copy differs");
        assert_freed(&domains);
        stop(domains);
    }
}

/// Directory in memory. A loaded disk may sync a copy after the end of its path.
struct InMemory(PathBuf);

impl InMemory {
    fn new() -> Self {
        let path = PathBuf::from(format!("/dev/shm/lighthaul-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Returns the ID of the path that `lighthaul path` has printed.
fn id_of(shown: &[String]) -> String {
    shown[0].split_whitespace().nth(1).unwrap().to_owned()
}

/// Starts a copy from `a` to `b` that fits a path of 40 Mb/s.
fn start_copy(domains: &Domains) -> Running {
    let source = domains.far.near.file("source", BYTES);
    let place = domains.far.place("copy");
    let options = ["--trc", COPY_RATES, "--json"];
    let copy = domains
        .far
        .copy(&options, &[source.to_str().unwrap(), &place]);
    Running::start(copy)
}

/// Returns true if the interface of domain 1 has a class with this rate.
fn has_class(domains: &Domains, bps: u64) -> bool {
    let shown = domains.on("one", "tc", &["class", "show", "dev", "veth1"]);
    let rate = format!("rate {}Mbit", bps / 1_000_000);
    let lines = shown.assert_succeeded().out;
    lines.iter().any(|line| line.contains(&rate))
}

/// Copies a file from `a` to `b`, and kills and restarts a domain meanwhile. Returns the bytes in the class of the
/// path.
fn copy_while_a_domain_is_killed(domains: &mut Domains) -> u64 {
    assert_eq!(domains.switch.patches().len(), 2, "channels of 20 Mb/s");
    assert_eq!(domains.program_rates(), [40_000_000]);
    let source = domains.far.near.file("source", BYTES);
    let place = domains.far.place("copy");
    let words = [source.to_str().unwrap(), &place];
    domains
        .transcript
        .say("the path has begun, and a copy crosses it:");
    domains.transcript.say(&format!(
        "$ lighthaul cp --trc \"{COPY_RATES}\" {} &",
        words.join(" ")
    ));
    let copy = domains.far.copy(&["--trc", COPY_RATES], &words);
    let copy = Running::start(copy);
    becomes_true("the copy is on its way", || {
        class_bytes(domains) > BYTES / 16
    });
    domains
        .transcript
        .say("the service of domain 2 is killed while the copy runs:");
    domains.services[1].kill();
    becomes_true("a neighbor notices it", || {
        let shown = domains.ask("one", &["domains"]).assert_succeeded().out;
        shown.iter().any(|line| line.contains("2 two  down"))
    });
    domains.show(&["domains"]);
    let before = class_bytes(domains);
    becomes_true("data passes without the service", || {
        class_bytes(domains) > before
    });
    domains.services[1] = domains.launch("two");
    let is_back = |domains: &Domains| {
        let book = domains.book("two");
        book.len() == 1 && book[0][1] == "committed"
    };
    becomes_true("the restarted domain has the path", || is_back(domains));
    domains
        .transcript
        .say("started again, it continues the path:");
    becomes_true("its neighbors and its device are known again", || {
        let shown = domains.ask("two", &["domains"]).assert_succeeded().out;
        let up = shown.iter().filter(|line| line.ends_with("  up"));
        let carried = shown.last().unwrap().matches("40 Mb/s");
        up.count() == 2 && carried.count() == 2
    });
    domains.show_at("two", &["domains"]);
    let done = copy.finish().assert_succeeded();
    assert!(!done.said("TCP carries the data"), "{done:?}");
    let summary = done.err.iter().find(|line| line.ends_with(", verified"));
    let summary = format!("the copy has ended: {}", summary.unwrap());
    let copied = domains.far.target.join("copy");
    assert!(
        fs::read(&copied).unwrap() == fs::read(&source).unwrap(),
        "the copy differs"
    );
    assert_eq!(domains.gate.closings(), 0, "the light went out");
    domains.transcript.say(&summary);
    class_bytes(domains)
}

/// Returns the bytes that the class of the path has sent at the interface of domain 1.
fn class_bytes(domains: &Domains) -> u64 {
    let shown = domains.on("one", "tc", &["-s", "class", "show", "dev", "veth1"]);
    let shown = shown.assert_succeeded().out;
    let classes = shown.iter().zip(shown.iter().skip(1));
    let ours = classes.filter(|(class, _)| class.contains("rate 40Mbit"));
    let sent = ours.map(|(_, sent)| {
        sent.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    });
    sent.max().unwrap_or(0)
}

/// Waits until no device has a circuit of a path, and no domain a reservation.
fn assert_freed(domains: &Domains) {
    becomes_true("all books are empty", || {
        DOMAINS
            .iter()
            .all(|host| domains.status(host)["paths"].as_array().unwrap().is_empty())
    });
    becomes_true("the switch has no cross-connect", || {
        domains.switch.patches().is_empty()
    });
    becomes_true("the program has no circuit", || {
        domains.program_rates().is_empty()
    });
    becomes_true("the shaper has no class of a path", || {
        let shown = domains.on("one", "tc", &["class", "show", "dev", "veth1"]);
        let shown = shown.assert_succeeded().out;
        !shown
            .iter()
            .any(|line| line.contains("rate 40Mbit") || line.contains("rate 80Mbit"))
    });
    assert!(!domains.is_open(), "packets pass without a path");
}

/// Stops all services. Their stores have no record.
fn stop(mut domains: Domains) {
    for service in domains.services.drain(..) {
        lab::terminate(&service);
        service.finish().assert_succeeded();
    }
    for (number, host) in (1..).zip(DOMAINS) {
        let path = domains.far.near.at(&format!("{host}.db"));
        let (_, records) = RecordStore::open(&path, DomainId(number)).unwrap();
        assert_eq!(records, []);
        assert!(!domains.far.near.at(&format!("{host}.sock")).exists());
    }
}
