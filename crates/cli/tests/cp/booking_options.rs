//! Options that select links, states and times of reservations, and the end of a booked copy's reservation.

use std::fs;

use lighthaul_booking_client::json::Timestamp;
use serde_json::{Value, json};

use crate::booking::{Booking, one};
use crate::far::Far;
use crate::schema::assert_valid;

#[test]
fn links_are_booked_by_their_names() {
    let booking = Booking::start("booking-path", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    let ask = |words: &[&str]| {
        let words = [words, &["--size", "125MB"]].concat();
        booking.run(&ada, &words)
    };
    let both = ["quote", "--path", "paris-geneva,geneva-milan"];
    let quote = ask(&both).assert_succeeded();
    let path = &quote.out[1];
    assert!(path.contains("paris-geneva, geneva-milan"), "{quote:?}");
    let words = ["book", "--json", "--path", "geneva-milan"];
    let booked = one(&ask(&words).assert_succeeded());
    assert_eq!(booked["path"], json!(["geneva-milan"]));
    for (path, says) in [
        ("geneva-milan,paris-geneva", "are not a path"),
        ("paris-rome", "paris-rome"),
    ] {
        ask(&["book", "--path", path]).assert_failed(1, says);
    }
    ask(&["book", "paris", "milan", "--path", "geneva-milan"]).assert_failed_to_parse();
}

#[test]
fn reservations_are_listed_by_their_state() {
    let booking = Booking::start("booking-state", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    let book = |options: &[&str]| {
        let words = ["book", "--json", "paris", "milan", "--size", "20GB"];
        let words = [&words, options].concat();
        one(&booking.run(&ada, &words).assert_succeeded())["id"].clone()
    };
    let held = book(&["--tentative"]);
    let ended = book(&[]);
    let words = ["cancel", &ended.to_string()];
    booking.run(&ada, &words).assert_succeeded();
    for (state, expected) in [
        ("reserved", vec![held]),
        ("terminated", vec![ended]),
        ("failed", vec![]),
    ] {
        let words = ["reservations", "--json", "--state", state];
        let listed = booking.run(&ada, &words).assert_succeeded().events();
        let ids: Vec<_> = listed.iter().map(|event| event["id"].clone()).collect();
        assert_eq!(ids, expected, "{state}");
    }
    booking
        .run(&ada, &["reservations", "--state", "lost"])
        .assert_failed_to_parse();
}

#[test]
fn calendar_begins_at_the_time_of_option_from() {
    let booking = Booking::start("booking-from", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    let words = ["book", "--json", "paris", "milan", "--hold", "1h"];
    let booked = one(&booking.run(&ada, &words).assert_succeeded());
    let calendar = |options: &[&str]| {
        let words = ["calendar", "--json", "paris-geneva", "--for", "2h"];
        let words = [&words, options].concat();
        one(&booking.run(&ada, &words).assert_succeeded())
    };
    let now = calendar(&[]);
    assert_eq!(now["allocations"][0]["id"], booked["id"]);
    let end = booked["promised_end"].as_str().unwrap();
    let later = calendar(&["--from", end]);
    assert_eq!(later["allocations"], json!([]));
    let time = |value: &Value| -> Timestamp { value.as_str().unwrap().parse().unwrap() };
    let free = later["free"].as_array().unwrap();
    let (first, last) = (&free[0], &free[free.len() - 1]);
    let (from, till) = (time(&first["from"]), time(&last["till"]));
    assert_eq!(from, time(&booked["promised_end"]));
    assert_eq!(till.0 - from.0, 2 * 3600 * 1_000_000_000);
}

#[test]
fn reservation_is_released_when_all_data_are_sent() {
    let booking = Booking::start("booking-left", &["--no-tls"]);
    let far = Far::start("booking-left-far", &[]);
    let ada = booking.token("ada", "user");
    let source = far.near.at("source");
    fs::write(&source, vec![7; 3_000_000]).unwrap();
    let (remote, back) = (far.place("copy"), far.near.at("back"));
    let (source, back) = (source.to_str().unwrap(), back.to_str().unwrap());
    let push = ([source, remote.as_str()], ["paris", "milan"]);
    let pull = ([remote.as_str(), back], ["milan", "paris"]);
    for (paths, [node, far_node]) in [push, pull] {
        // two minutes are reserved, of which the copy needs a moment
        let hosts = ["--book", "--node", node, "--far-node", far_node, "--json"];
        let more = ["--rate", "100Mb/s", "--book-size", "1500MB"];
        let mut copy = far.copy(&[hosts.as_slice(), more.as_slice()].concat(), &paths);
        copy.args(["--scheduler", &booking.url])
            .env("LIGHTHAUL_SCHEDULER_TOKEN", &ada);
        let events = assert_valid(&far.near.run(copy).assert_succeeded());
        let released = events.iter().find(|event| event["type"] == "released");
        let released = released.unwrap();
        assert!(released["unused_s"].as_f64() > Some(1.0), "{released}");
        let ask = [
            "reservations",
            "--json",
            &released["reservation"].to_string(),
        ];
        let reservation = one(&booking.run(&ada, &ask).assert_succeeded());
        let reason = last_reason(&reservation);
        assert_eq!(reason, "all data have left the circuit", "{reservation}");
    }
    assert_eq!(fs::read(back).unwrap(), vec![7; 3_000_000]);
}

/// Reason of the latest change of a reservation.
fn last_reason(reservation: &Value) -> &str {
    let journal = reservation["journal"].as_array().unwrap();
    journal.last().unwrap()["why"].as_str().unwrap()
}
