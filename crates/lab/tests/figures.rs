//! Tests that figures still have their accepted values.

use std::io::Cursor;
use std::path::Path;

use lighthaul_base::Rate;
use lighthaul_lab::booking::arrivals::CLASSES;
use lighthaul_lab::booking::example::Example;
use lighthaul_lab::booking::{self, delay};
use lighthaul_lab::contest;
use lighthaul_lab::domains::{self, plan::Kind};
use lighthaul_lab::figure::{TOLERANCE, accepted};
use lighthaul_lab::figures::{plans, shared_link_plans, vector_plans};
use lighthaul_lab::latency;
use lighthaul_lab::measured::{self, MeasuredPlan};
use lighthaul_lab::plot::{plot, plot_shared_link};
use lighthaul_lab::shared_link_plan::Variable;
use lighthaul_lab::simulate::simulate;
use lighthaul_lab::slabs;
use lighthaul_lab::slabs::plan::Experiment;
use lighthaul_lab::table::Table;
use lighthaul_testkit::{Drawing, drawing};

#[test]
fn simulated_figures_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let plans = plans(dir).unwrap();
    assert_eq!(plans.len(), 4);
    for mut plan in plans {
        // `make figures` simulates all points.
        plan.values
            .retain(|value| [10_000_000, 650_000_000, 1_200_000_000].contains(value));
        assert_eq!(plan.values.len(), 1);
        let accepted = accepted(dir, &plan.name)
            .unwrap()
            .expect("a figure has an accepted table");
        // Many seeds take long.
        if plan.spread.is_none() {
            let differences = simulate(&plan).differences(&accepted, TOLERANCE);
            assert!(differences.is_empty(), "{}: {differences:#?}", plan.name);
        }
        assert_drawn(&plot(&plan, &accepted).unwrap());
    }
}

#[test]
fn simulated_vectors_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    for plan in vector_plans(dir).unwrap() {
        let table = plan.simulate();
        let accepted = accepted(dir, &plan.name).unwrap();
        let accepted = accepted.expect("a figure has an accepted table");
        let differences = table.differences(&accepted, TOLERANCE);
        assert!(differences.is_empty(), "{}: {differences:#?}", plan.name);
        assert_drawn(&plan.plot(&accepted).unwrap());
    }
}

#[test]
fn simulated_slabs_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures/slabs"));
    let plans = slabs::figures::plans(dir).unwrap();
    assert_eq!(plans.len(), 4);
    for mut plan in plans {
        let accepted = accepted(dir, &plan.name).unwrap();
        let mut accepted = accepted.expect("a figure has an accepted table");
        assert_drawn(&slabs::plot::plot(&plan, &accepted).unwrap());
        // `make figures` simulates all points, and the cluster with its many seeds.
        if plan.kind == Experiment::Cluster {
            continue;
        }
        plan.values.truncate(1);
        plan.series.truncate(1);
        let columns = slabs::simulate::columns(&plan).len();
        accepted.columns.truncate(columns);
        accepted.rows.truncate(1);
        accepted.rows[0].truncate(columns);
        let differences = slabs::simulate::simulate(&plan).differences(&accepted, TOLERANCE);
        assert!(differences.is_empty(), "{}: {differences:#?}", plan.name);
    }
}

#[test]
fn measured_slabs_have_complete_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures/slabs"));
    let plans = slabs::figures::measured_plans(dir).unwrap();
    assert_complete(dir, &plans);
}

#[test]
fn measured_tools_have_complete_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures/tools"));
    let plans = measured::plans(dir).unwrap();
    assert_complete(dir, &plans);
}

fn assert_complete(dir: &Path, plans: &[MeasuredPlan]) {
    assert!(!plans.is_empty());
    for plan in plans {
        let accepted = accepted(dir, &plan.name).expect("a table can be read");
        let accepted = accepted.expect("a figure has an accepted table");
        assert_eq!(accepted.columns, plan.columns(), "{}", plan.name);
        let cells = accepted.rows.iter().flatten();
        assert!(cells.clone().all(Option::is_some), "{}", plan.name);
        assert_drawn(&plan.plot(&accepted).expect("a table can be drawn"));
    }
}

#[test]
fn simulated_latencies_match_the_accepted_tables() {
    let dir = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../figures/latency"
    ));
    let plans = latency::figures::plans(dir).unwrap();
    assert_eq!(plans.len(), 1);
    for mut plan in plans {
        // `make figures` simulates all points.
        plan.losses_ppb.retain(|loss| *loss == 10_000_000);
        let table = latency::simulate::simulate(&plan).unwrap();
        let accepted = accepted(dir, &plan.name).unwrap();
        let accepted = accepted.expect("a figure has an accepted table");
        let differences = table.differences(&accepted, TOLERANCE);
        assert!(differences.is_empty(), "{}: {differences:#?}", plan.name);
        let picture = latency::plot::plot(&plan, &accepted).unwrap();
        assert_drawn(&picture);
    }
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
        assert_drawn(&domains::plot::plot(&plan, &accepted).unwrap());
        // `make figures` simulates all loads.
        if let Kind::Blocking(blocking) = &mut plan.kind {
            blocking.loads.retain(|load| *load == 0.8);
            assert_eq!(blocking.loads.len(), 1);
        }
        let table = domains::simulate::simulate(&plan);
        let mut known = accepted.clone();
        let keys: Vec<_> = table.rows.iter().map(|row| row[0]).collect();
        known.rows.retain(|row| keys.contains(&row[0]));
        let differences = table.differences(&known, TOLERANCE);
        assert!(differences.is_empty(), "{}: {differences:#?}", plan.name);
    }
}

#[test]
fn measured_contests_have_complete_tables() {
    let dir = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../figures/contests"
    ));
    let plans = contest::figures::plans(dir).unwrap();
    assert!(!plans.is_empty());
    for plan in plans {
        let accepted = accepted(dir, &plan.name).unwrap();
        let accepted = accepted.expect("a figure has an accepted table");
        let blank = plan.blank();
        assert_eq!(accepted.columns, blank.columns, "{}", plan.name);
        let keys = |table: &Table| table.rows.iter().map(|row| row[0]).collect::<Vec<_>>();
        assert_eq!(keys(&accepted), keys(&blank), "{}", plan.name);
        let cells = accepted.rows.iter().flatten();
        assert!(cells.clone().all(Option::is_some), "{}", plan.name);
        let picture = contest::plot::plot(&plan, &accepted).unwrap();
        assert_drawn(&picture);
    }
}

#[test]
fn simulated_crowds_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let crowds = shared_link_plans(dir).unwrap();
    assert_eq!(crowds.len(), 3);
    for crowd in crowds {
        let accepted = accepted(dir, &crowd.name)
            .unwrap()
            .expect("a figure has an accepted table");
        assert_drawn(&plot_shared_link(&crowd, &accepted).unwrap());
        // `make figures` simulates the fast links.
        if let Variable::Link(_) = crowd.vary {
            let mut table = accepted.clone();
            table.rows = vec![crowd.utilizations(Rate::from_mbps(10))];
            let mut known = accepted;
            known.rows.retain(|row| row[0] == Some(10.0));
            let differences = table.differences(&known, TOLERANCE);
            assert!(differences.is_empty(), "{}: {differences:#?}", crowd.name);
        }
    }
}

const BOOKING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures/booking");

#[test]
fn simulated_delays_match_the_accepted_tables() {
    let dir = Path::new(BOOKING);
    let plans = booking::figures::plans(dir).unwrap();
    assert_eq!(plans.len(), 7);
    for mut plan in plans {
        let accepted = accepted(dir, &plan.name).unwrap();
        let accepted = accepted.expect("a figure has an accepted table");
        let picture = booking::plot::plot(&plan, &accepted).unwrap();
        assert_drawn(&picture);
        if plan.name == "vbls-guard" {
            // `make figures` simulates all points.
            plan.loads.truncate(1);
            plan.series.truncate(1);
            let differences = delay::simulate(&plan).differences(&accepted, TOLERANCE);
            assert!(differences.is_empty(), "{}: {differences:#?}", plan.name);
        }
    }
}

#[test]
fn vbls_example_matches_the_accepted_table() {
    let dir = Path::new(BOOKING);
    let example = Example::read(&booking::figures::example_file(dir)).unwrap();
    let accepted = accepted(dir, "vbls-example").unwrap();
    let accepted = accepted.expect("a figure has an accepted table");
    let differences = example.simulate().differences(&accepted, TOLERANCE);
    assert!(differences.is_empty(), "{differences:#?}");
    assert_drawn(&example.plot(&accepted).unwrap());
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

#[test]
fn measured_samples_are_drawn() {
    let text = r#"
        title = "t"
        key = "seconds"
        below = "time, s"
        [[panel]]
        label = "Mb/s"
        curve = [{ name = "a", label = "A" }, { name = "b", label = "B", dashed = true }]
    "#;
    let plan = MeasuredPlan::parse("p", text).unwrap();
    let samples = [("a", 20.0, 7.0), ("b", 3.0, 1.0), ("b", 30.0, 2.0)];
    let samples = samples.map(|(name, key, value)| (name.to_owned(), key, value));
    assert_drawn(&plan.plot(&plan.table(&samples)).unwrap());
}

/// Asserts that this is a complete picture, with a plausible share of drawn pixels.
fn assert_drawn(png: &[u8]) {
    let Drawing {
        width,
        height,
        drawn,
    } = drawing(Cursor::new(png));
    assert!(width >= 300 && height >= 200, "{width} x {height}");
    let share = drawn * 1000 / (width * height) as usize;
    assert!(
        (5..900).contains(&share),
        "{share} of 1000 pixels are drawn on"
    );
}
