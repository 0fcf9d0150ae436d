//! Explicit-state search: all interleavings of small worlds, with losses, copies, crashes and timeouts.
//!
//! Three domains in a row have one channel in the middle. A request from each end races for it.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::print_stdout, reason = "prints the counts of the search")]

mod model;

use std::collections::BTreeSet;

use model::{Budget, Scene, Setup, State};

#[derive(Debug, Default)]
struct Found {
    states: u64,
    steps: u64,
    ends: u64,
    /// Outcomes of both requests at the ends, and their numbers.
    committed: [u64; 4],
    agreements: u64,
}

/// Visits every reachable state.
fn explore(scene: &Scene, budget: Budget) -> Found {
    let mut found = Found::default();
    let first = State::new(scene, budget);
    let mut seen = BTreeSet::from([first.digest()]);
    let mut open = vec![first];
    while let Some(state) = open.pop() {
        found.states += 1;
        found.agreements += u64::from(state.check_agreement(scene));
        let events = state.events();
        if events.is_empty() {
            found.ends += 1;
            let won = state.check_end();
            found.committed[won] += 1;
        }
        for event in events {
            found.steps += 1;
            let mut next = state.clone();
            next.apply(scene, event);
            if seen.insert(next.digest()) {
                open.push(next);
            }
        }
        assert!(
            found.states <= STATES_MAX,
            "the search is not bounded: {found:?}"
        );
    }
    found
}

fn check(name: &str, setup: Setup, budgets: &[Budget]) {
    for budget in budgets {
        let found = explore(&Scene::new(setup), *budget);
        println!("{name}: {budget:?}: {found:?}");
        assert!(found.ends > 0 && found.agreements > 0);
        assert!(
            found.committed[1] > 0 || found.committed[2] > 0,
            "no request succeeds"
        );
        assert_eq!(found.committed[3], 0, "both requests have the last channel");
    }
}

/// Returns a budget of losses, copies, crashes and delays.
const fn budget([losses, copies, crashes, delays]: [u8; 4]) -> Budget {
    Budget {
        losses,
        copies,
        crashes,
        delays,
    }
}

/// One fault of each kind.
const SINGLE: [Budget; 4] = [
    budget([0, 0, 0, 0]),
    budget([1, 0, 0, 0]),
    budget([0, 1, 0, 0]),
    budget([0, 0, 1, 0]),
];

/// Timers that overtake messages.
const LATE: Budget = budget([0, 0, 0, 1]);

/// Each pair of faults, also of one kind.
const DOUBLE: [Budget; 10] = [
    budget([2, 0, 0, 0]),
    budget([1, 1, 0, 0]),
    budget([1, 0, 1, 0]),
    budget([1, 0, 0, 1]),
    budget([0, 2, 0, 0]),
    budget([0, 1, 1, 0]),
    budget([0, 1, 0, 1]),
    budget([0, 0, 2, 0]),
    budget([0, 0, 1, 1]),
    budget([0, 0, 0, 2]),
];

#[test]
fn chain_is_committed_everywhere_or_nowhere_in_all_interleavings() {
    check("chain", Setup::Chain { ends: 2 }, &SINGLE);
    check("chain", Setup::Chain { ends: 2 }, &[LATE]);
}

#[test]
fn chain_survives_two_faults_in_all_interleavings() {
    check("chain", Setup::Chain { ends: 2 }, &DOUBLE);
}

#[test]
fn chain_with_one_channel_in_each_domain_has_no_deadlock() {
    check("chain, one channel", Setup::Chain { ends: 1 }, &SINGLE);
    check("chain, one channel", Setup::Chain { ends: 1 }, &[LATE]);
}

#[test]
fn tree_is_committed_everywhere_or_nowhere_in_all_interleavings() {
    check("tree", Setup::Tree { ends: 2 }, &SINGLE);
    check("tree", Setup::Tree { ends: 2 }, &[LATE]);
}

const STATES_MAX: u64 = 3_000_000;
