//! Copies whose reservation or scheduler changes meanwhile.

use std::fs;

use crate::booking::Booking;
use crate::far::Far;
use crate::running::{Running, event};
use crate::schema::assert_valid;
use crate::scratch::noise;

#[test]
fn copy_leaves_the_circuit_when_its_reservation_is_canceled() {
    let booking = Booking::start("booking-taken", &["--no-tls"]);
    let far = Far::start("booking-taken-far", &[]);
    let ada = booking.token("ada", "user");
    let source = far.near.at("source");
    // half a minute at this rate, and the reservation is for longer
    let content = noise(15_000_000, 31);
    fs::write(&source, &content).unwrap();
    let target = far.place("copy");
    let more = ["--book-size", "40MB", "--rate", "4Mb/s"];
    let paths = [source.to_str().unwrap(), target.as_str()];
    let mut copy = Running::start(booking.copy(&ada, &far, &more, &paths));
    let booked = event(&copy.prints("booked"));
    copy.prints("\"start\"");
    let id = booked["reservation"].to_string();
    booking.run(&ada, &["cancel", &id]).assert_succeeded();
    let events = assert_valid(&copy.finish().assert_succeeded());
    let of = |kind: &str| {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect::<Vec<_>>()
    };
    let protocols: Vec<_> = of("start")
        .iter()
        .map(|event| event["protocol"].clone())
        .collect();
    assert_eq!(protocols.len(), 2, "{protocols:?}");
    assert_eq!(protocols[0], "vbtp");
    assert_ne!(protocols[1], "vbtp");
    let warnings = of("warning");
    let text = warnings[0].to_string();
    assert!(text.contains("continues without it"), "{text}");
    assert!(fs::read(far.target.join("copy")).unwrap() == content);
}

/// Starts a copy that waits behind another reservation of this size.
fn waiting_copy(name: &str, size: &str) -> (Booking, Far, Running) {
    let booking = Booking::start(name, &["--no-tls"]);
    let far = Far::start(&format!("{name}-far"), &[]);
    let ada = booking.token("ada", "user");
    let words = ["book", "--json", "paris", "milan", "--size", size];
    booking.run(&ada, &words).assert_succeeded();
    let source = far.near.at("source");
    fs::write(&source, vec![7; 1_000_000]).unwrap();
    let target = far.place("copy");
    let paths = [source.to_str().unwrap(), target.as_str()];
    let mut copy = Running::start(booking.copy(&ada, &far, &[], &paths));
    copy.prints("booked");
    (booking, far, copy)
}

/// Checks that a copy has used its circuit.
fn assert_copied(copy: Running, far: &Far) {
    let events = assert_valid(&copy.finish().assert_succeeded());
    let start = events.iter().find(|event| event["type"] == "start");
    assert_eq!(start.unwrap()["protocol"], "vbtp", "{events:?}");
    assert_eq!(
        fs::read(far.target.join("copy")).unwrap(),
        vec![7; 1_000_000]
    );
}

#[test]
fn waiting_copy_survives_a_restart_of_the_scheduler() {
    let (mut booking, far, mut copy) = waiting_copy("booking-away", "4GB");
    booking.scheduler.kill();
    // until the copy has noticed it
    copy.prints("asking again");
    let _again = booking.restart();
    assert_copied(copy, &far);
}

#[test]
fn waiting_copy_begins_without_its_scheduler() {
    let (mut booking, far, copy) = waiting_copy("booking-gone", "2GB");
    booking.scheduler.kill();
    assert_copied(copy, &far);
}
