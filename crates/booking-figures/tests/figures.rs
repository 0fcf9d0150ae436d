//! Tests that figures of bookings still have their accepted values.

use std::io::Cursor;
use std::path::Path;

use lighthaul_booking_figures::calendars::arrivals::CLASSES;
use lighthaul_booking_figures::calendars::example::Example;
use lighthaul_booking_figures::calendars::{self, delay};
use lighthaul_booking_figures::domains::{self, plan::DomainsFigure};
use lighthaul_booking_figures::figures::figures;
use lighthaul_lab::figure::{Source, accepted, faults};
use lighthaul_lab::table::Table;
use lighthaul_testkit::{assert_drawn, picture_fault};

#[test]
fn pictures_match_their_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let figures = figures(dir, Source::Accepted).unwrap();
    assert_eq!(figures.len(), 10);
    let faults = figures.iter().filter_map(|figure| {
        assert_drawn(&figure.png);
        picture_fault(&figure.picture, Cursor::new(&figure.png))
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "`make pictures` redraws: {faults:#?}");
}

#[test]
fn simulated_paths_across_domains_match_the_accepted_tables() {
    let dir = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../figures/domains"
    ));
    let plans = domains::figures::plans(dir).unwrap();
    assert_eq!(plans.len(), 2);
    for mut plan in plans {
        let accepted = accepted(dir, &plan.name).unwrap();
        let accepted = accepted.expect("a figure has an accepted table");
        // `make figures` simulates all loads.
        if let DomainsFigure::Blocking(blocking) = &mut plan.kind {
            blocking.loads.retain(|load| (*load - 0.8).abs() < 0.01);
            assert_eq!(blocking.loads.len(), 1);
        }
        assert_held(&plan.name, domains::simulate::simulate(&plan), &accepted);
    }
}

const BOOKING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures/booking");

#[test]
fn simulated_delays_match_the_accepted_tables() {
    let dir = Path::new(BOOKING);
    let plans = calendars::figures::plans(dir).unwrap();
    assert_eq!(plans.len(), 7);
    for mut plan in plans {
        let accepted = accepted(dir, &plan.name).unwrap();
        let accepted = accepted.expect("a figure has an accepted table");
        // `make figures` simulates all points.
        plan.loads.truncate(1);
        assert_held(&plan.name, delay::simulate(&plan), &accepted);
    }
}

#[test]
fn vbls_example_matches_the_accepted_table() {
    let dir = Path::new(BOOKING);
    let example = Example::read(&calendars::figures::example_file(dir)).unwrap();
    let accepted = accepted(dir, "vbls-example").unwrap();
    let accepted = accepted.expect("a figure has an accepted table");
    assert_held("vbls-example", example.simulate(), &accepted);
}

/// Checks the statements of section 3.3 about Figure 3 in numbers.
#[test]
fn booked_delays_confirm_the_vbls_papers_results() {
    let dir = Path::new(BOOKING);
    let [delays, margins] =
        ["vbls-delay", "vbls-margin"].map(|name| accepted(dir, name).unwrap().unwrap());
    let number = |load: f64, column: &str| {
        delays
            .number(load, &format!("{column}_simulation"))
            .unwrap()
    };
    for row in &delays.rows {
        let load = row[0].unwrap();
        for class in CLASSES {
            // The first series is the paper's packet switch.
            assert!(
                (0.0..1.0).contains(&number(load, &format!("vbls_r{class}_above"))),
                "{load}"
            );
        }
        for class in [5, 10].into_iter().filter(|_| load >= 0.7) {
            let [vbls, fbls] =
                ["vbls", "fbls"].map(|name| number(load, &format!("{name}_r{class}")));
            assert!(vbls < fbls, "{vbls} and {fbls} at {load}");
        }
    }
    assert!(number(0.95, "vbls_r10") <= 0.8 * number(0.95, "fbls_r10"));
    // With repacking, bookings with a margin end as if the need had been known.
    for row in &margins.rows {
        for class in CLASSES {
            let above = format!("packed_r{class}_above_simulation");
            assert_eq!(
                margins
                    .number(row[0].unwrap(), &above)
                    .map(|above| above.abs() < 0.005),
                Some(true)
            );
        }
    }
}

/// Asserts that points of every simulated curve still have their accepted values.
fn assert_held(name: &str, repeated: Table, accepted: &Table) {
    let faults = faults(&[repeated], accepted);
    assert!(faults.is_empty(), "{name}: {faults:#?}");
}
