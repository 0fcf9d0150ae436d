//! Tests that figures still have their accepted values.

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_lab::beside;
use lighthaul_lab::contest;
use lighthaul_lab::figure::{accepted, faults};
use lighthaul_lab::figures::{circuit_plans, plans, redrawn, shared_link_plans, vector_plans};
use lighthaul_lab::latency;
use lighthaul_lab::measured::{self, MeasuredPlan};
use lighthaul_lab::shared_link_plan::Variable;
use lighthaul_lab::simulate::simulate;
use lighthaul_lab::slabs;
use lighthaul_lab::table::Table;
use lighthaul_testkit::{assert_drawn, picture_fault};

#[test]
fn pictures_match_their_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let figures = redrawn(dir).unwrap();
    let faults = figures.iter().filter_map(|figure| {
        assert_drawn(&figure.png);
        picture_fault(&figure.picture, Cursor::new(&figure.png))
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "`make pictures` redraws: {faults:#?}");
    // A picture that no plan draws would never be compared.
    let pictures = figures.iter().map(|figure| figure.picture.clone());
    let pictures: Vec<_> = pictures.collect();
    for of in [".", "beside", "contests", "latency", "slabs", "tools"] {
        for file in dir.join(of).read_dir().unwrap() {
            let name = file.unwrap().file_name();
            let is_drawn = |picture: &std::path::PathBuf| picture.file_name() == Some(&name);
            let is_picture = Path::new(&name)
                .extension()
                .is_some_and(|tail| tail == "png");
            assert!(!is_picture || pictures.iter().any(is_drawn), "{name:?}");
        }
    }
}

#[test]
fn simulated_figures_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let plans = plans(dir).unwrap();
    assert_eq!(plans.len(), 4);
    for mut plan in plans {
        let accepted = read(dir, &plan.name);
        // `make figures` simulates all points.
        plan.values
            .retain(|value| [10_000_000, 650_000_000, 800_000_000].contains(value));
        plan.values.truncate(1);
        assert_held(&plan.name, simulate(&plan), &accepted);
    }
}

#[test]
fn simulated_vectors_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    for plan in vector_plans(dir).unwrap() {
        let accepted = read(dir, &plan.name);
        assert_held(&plan.name, plan.simulate(), &accepted);
    }
}

#[test]
fn simulated_circuits_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let plans = circuit_plans(dir).unwrap();
    assert_eq!(plans.len(), 1);
    for mut plan in plans {
        let accepted = read(dir, &plan.name);
        assert_drawn(&plan.plot(&accepted).unwrap());
        // `make figures` simulates all sizes.
        plan.sizes.retain(|size| *size == 5_000_000_000);
        assert_held(&plan.name, plan.simulate(), &accepted);
    }
}

#[test]
fn simulated_slabs_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures/slabs"));
    let plans = slabs::figures::plans(dir).unwrap();
    assert_eq!(plans.len(), 4);
    for mut plan in plans {
        let accepted = read(dir, &plan.name);
        // `make figures` simulates all points. Here it is the first row in which no curve has a gap.
        let is_whole = |row: &Vec<Option<f64>>| row.iter().all(Option::is_some);
        let nth = accepted.rows.iter().position(is_whole);
        plan.values = vec![plan.values[nth.expect("a row without gaps")]];
        assert_held(&plan.name, slabs::simulate::simulate(&plan), &accepted);
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
        let accepted = read(dir, &plan.name);
        assert_eq!(accepted.columns, plan.columns(), "{}", plan.name);
        let cells = accepted.rows.iter().flatten();
        assert!(cells.clone().all(Option::is_some), "{}", plan.name);
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
        let accepted = read(dir, &plan.name);
        assert_held(&plan.name, table, &accepted);
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
        let accepted = read(dir, &plan.name);
        let blank = plan.blank();
        assert_eq!(accepted.columns, blank.columns, "{}", plan.name);
        let keys = |table: &Table| table.rows.iter().map(|row| row[0]).collect::<Vec<_>>();
        assert_eq!(keys(&accepted), keys(&blank), "{}", plan.name);
        let cells = accepted.rows.iter().flatten();
        assert!(cells.clone().all(Option::is_some), "{}", plan.name);
    }
}

#[test]
fn simulated_crowds_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let crowds = shared_link_plans(dir).unwrap();
    assert_eq!(crowds.len(), 3);
    for crowd in crowds {
        let accepted = read(dir, &crowd.name);
        // `make figures` simulates the fast links, and the rest of the time.
        let repeated = match crowd.vary {
            Variable::Link(_) => Table {
                columns: accepted.columns.clone(),
                rows: vec![crowd.utilizations(Rate::from_mbps(10))],
            },
            // All flows have begun by then.
            Variable::Time(_) => crowd.shortened(Duration::from_secs(42)).simulate(),
        };
        assert_held(&crowd.name, repeated, &accepted);
    }
}

/// Reads the accepted table of a figure.
fn read(dir: &Path, name: &str) -> Table {
    let accepted = accepted(dir, name).expect("a table can be read");
    accepted.expect("a figure has an accepted table")
}

/// Asserts that points of every simulated curve still have their accepted values.
fn assert_held(name: &str, repeated: Table, accepted: &Table) {
    let faults = faults(&[repeated], accepted);
    assert!(faults.is_empty(), "{name}: {faults:#?}");
}

#[test]
fn simulated_flows_beside_tcp_match_the_accepted_tables() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures/beside"));
    let plans = beside::figures::plans(dir).unwrap();
    assert_eq!(plans.len(), 3);
    for mut plan in plans {
        // `make figures` simulates all points.
        plan.values.truncate(1);
        let accepted = read(dir, &plan.name);
        assert_held(&plan.name, beside::simulate::simulate(&plan), &accepted);
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
