//! Runs of all checks.

use std::fmt;

use crate::conformance::kit::{Check, Kit};
use crate::conformance::outcome::Outcome;
use crate::conformance::subject::Subject;
use crate::conformance::{checks, faulty, random};

/// Outcomes of all checks by their names.
#[derive(Clone, Debug)]
pub struct Report {
    /// Seed of the random sequences.
    pub seed: u64,
    /// Outcomes in the order of the checks.
    pub outcomes: Vec<(&'static str, Outcome)>,
}

impl Report {
    /// Returns true if no check failed.
    pub fn is_passed(&self) -> bool {
        let mut outcomes = self.outcomes.iter();
        outcomes.all(|(_, outcome)| !matches!(outcome, Outcome::Failed(_)))
    }

    /// Returns the names of the checks that were not done.
    pub fn not_applicable(&self) -> Vec<&'static str> {
        let outcomes = self.outcomes.iter();
        let left_out = outcomes.filter(|(_, outcome)| matches!(outcome, Outcome::NotApplicable(_)));
        left_out.map(|(name, _)| *name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, outcome) in &self.outcomes {
            match outcome {
                Outcome::Passed => writeln!(f, "passed   {name}")?,
                Outcome::NotApplicable(why) => writeln!(f, "not done {name}: {why}")?,
                Outcome::Failed(why) => writeln!(f, "FAILED   {name}: {why}")?,
            }
        }
        write!(f, "seed {}", self.seed)
    }
}

/// Runs all checks. The device must have no circuits. It is left without circuits.
pub fn run(subject: &mut dyn Subject, seed: u64) -> Report {
    let mut outcomes = Vec::new();
    let mut kit = match Kit::new(subject) {
        Ok(kit) => kit,
        Err(why) => {
            outcomes.push(("opens", Outcome::Failed(why)));
            return Report { seed, outcomes };
        }
    };
    let checks = checks::ALL.iter().chain(faulty::ALL);
    let mut checks: Vec<(&str, Box<Check>)> = checks
        .map(|(name, check)| (*name, Box::new(*check) as Box<Check>))
        .collect();
    for nth in 0..random::SEQUENCES {
        let seed = seed.wrapping_add(nth);
        let check = move |kit: &mut Kit<'_>| random::sequence(kit, seed);
        checks.push(("random sequence", Box::new(check)));
    }
    for (name, check) in checks {
        if kit.is_stuck {
            let why = "the circuits of the check before could not be removed";
            outcomes.push((name, Outcome::Failed(why.to_owned())));
        } else {
            outcomes.push((name, kit.run(&check)));
        }
    }
    Report { seed, outcomes }
}
