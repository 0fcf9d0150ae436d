//! What a figure once showed it still shows.

use std::path::Path;

use lighthaul_base::Rate;
use lighthaul_lab::crowd::Vary;
use lighthaul_lab::figures::{TOLERANCE, accepted, crowds, plans, vector_plans};
use lighthaul_lab::latency;
use lighthaul_lab::plot::{plot, plot_crowd};
use lighthaul_lab::simulate::simulate;

#[test]
fn simulated_figures_are_as_they_were_accepted() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let plans = plans(dir).unwrap();
    assert_eq!(plans.len(), 3);
    for mut plan in plans {
        // the whole of it is drawn by `make figures`
        plan.values
            .retain(|value| [10_000_000, 650_000_000, 1_200_000_000].contains(value));
        assert_eq!(plan.values.len(), 1);
        let table = simulate(&plan);
        let accepted = accepted(dir, &plan.name)
            .unwrap()
            .expect("a figure has its table");
        let differences = table.differences(&accepted, TOLERANCE);
        assert!(differences.is_empty(), "{}: {differences:#?}", plan.name);
        assert!(plot(&plan, &accepted).unwrap().starts_with(b"\x89PNG"));
    }
}

#[test]
fn simulated_vectors_are_as_they_were_accepted() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    for plan in vector_plans(dir).unwrap() {
        let table = plan.simulate();
        let accepted = accepted(dir, &plan.name).unwrap();
        let accepted = accepted.expect("a figure has its table");
        let differences = table.differences(&accepted, TOLERANCE);
        assert!(differences.is_empty(), "{}: {differences:#?}", plan.name);
        assert!(plan.plot(&accepted).unwrap().starts_with(b"\x89PNG"));
    }
}

#[test]
fn simulated_latencies_are_as_they_were_accepted() {
    let dir = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../figures/latency"
    ));
    let plans = latency::figures::plans(dir).unwrap();
    assert_eq!(plans.len(), 1);
    for mut plan in plans {
        // the whole of it is drawn by `make figures`
        plan.losses_ppb.retain(|loss| *loss == 10_000_000);
        let table = latency::simulate::simulate(&plan).unwrap();
        let accepted = accepted(dir, &plan.name).unwrap();
        let accepted = accepted.expect("a figure has its table");
        let differences = table.differences(&accepted, TOLERANCE);
        assert!(differences.is_empty(), "{}: {differences:#?}", plan.name);
        let picture = latency::plot::plot(&plan, &accepted).unwrap();
        assert!(picture.starts_with(b"\x89PNG"));
    }
}

#[test]
fn simulated_crowds_are_as_they_were_accepted() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures"));
    let crowds = crowds(dir).unwrap();
    assert_eq!(crowds.len(), 3);
    for crowd in crowds {
        let accepted = accepted(dir, &crowd.name)
            .unwrap()
            .expect("a figure has its table");
        assert!(
            plot_crowd(&crowd, &accepted)
                .unwrap()
                .starts_with(b"\x89PNG")
        );
        // the fast links are left to `make figures`
        if let Vary::Link(_) = crowd.vary {
            let mut table = accepted.clone();
            table.rows = vec![crowd.utilisations(Rate::from_mbps(10))];
            let mut known = accepted;
            known.rows.retain(|row| row[0] == Some(10.0));
            let differences = table.differences(&known, TOLERANCE);
            assert!(differences.is_empty(), "{}: {differences:#?}", crowd.name);
        }
    }
}
