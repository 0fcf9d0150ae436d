//! Results of the trials.

use std::fmt;

use lighthaul_base::Size;

/// Copy that was killed and repeated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    /// Number of the trial.
    pub(crate) number: u64,
    /// Process that was killed, and the time in seconds; `None` if the copy had already ended.
    pub(crate) killed: Option<(&'static str, f64)>,
    /// Bytes that crossed the path more than once.
    pub(crate) again: u64,
    /// Faults found.
    pub(crate) faults: Vec<String>,
}

/// Results of all trials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) trials: Vec<Trial>,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, again, .. } = self;
        match self.killed {
            Some((who, at)) => write!(f, "{number:4}  {who} killed after {at:5.2} s, ")?,
            None => write!(f, "{number:4}  ended before the kill, ")?,
        }
        write!(f, "{} retransmitted", Size(*again))?;
        for fault in &self.faults {
            write!(f, "\n      FAULT: {fault}")?;
        }
        Ok(())
    }
}

impl Tally {
    /// Returns the number of trials with faults.
    pub(crate) fn faults(&self) -> usize {
        let faulty = |trial: &&Trial| !trial.faults.is_empty();
        self.trials.iter().filter(faulty).count()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let killed = |who: &str| {
            let is = |trial: &&Trial| trial.killed.is_some_and(|(killed, _)| killed == who);
            self.trials.iter().filter(is).count()
        };
        let mut again: Vec<u64> = self.trials.iter().map(|trial| trial.again).collect();
        again.sort_unstable();
        let median = again.get(again.len() / 2).copied().unwrap_or(0);
        let most = again.last().copied().unwrap_or(0);
        write!(
            f,
            "{} runs: {} clients and {} daemons killed; retransmitted: median {}, maximum {}; \
             {} with faults",
            self.trials.len(),
            killed(CLIENT),
            killed(DAEMON),
            Size(median),
            Size(most),
            self.faults(),
        )
    }
}

/// Number of trials that were made, that were skipped for lack of time, and that found faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    made: u64,
    skipped: u64,
    faults: usize,
}

impl Done {
    pub(crate) const fn add(&mut self, made: u64, skipped: u64, faults: usize) {
        self.made += made;
        self.skipped += skipped;
        self.faults += faults;
    }

    /// Fails after faults, and if trials are missing; `limit` is the option that bounds their time.
    pub(crate) fn verdict(self, what: &str, limit: &str) -> Result<(), String> {
        let Self {
            made,
            skipped,
            faults,
        } = self;
        if faults == 0 && skipped == 0 {
            return Ok(());
        }
        if skipped == 0 {
            return Err(format!("{faults} of {made} {what} led to faults"));
        }
        let all = made + skipped;
        Err(format!(
            "only {made} of {all} {what} were tried before {limit} was over, and {faults} of them led to faults; give more \
             minutes or ask for fewer"
        ))
    }
}

pub(crate) const CLIENT: &str = "client";
pub(crate) const DAEMON: &str = "daemon";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_without_enough_time_fail_and_their_number_is_reported() {
        let mut done = Done::default();
        done.add(12, 0, 0);
        assert_eq!(done.verdict("copies", "--minutes"), Ok(()));
        done.add(8, 180, 0);
        let why = done.verdict("copies", "--minutes").unwrap_err();
        assert!(
            why.contains("only 20 of 200 copies were tried before --minutes was over"),
            "{why}"
        );
        let mut none = Done::default();
        none.add(0, 200, 0);
        assert!(
            none.verdict("cuts", "--cut-minutes")
                .unwrap_err()
                .contains("only 0 of 200")
        );
    }

    #[test]
    fn faults_fail_with_and_without_remaining_time() {
        for skipped in [0, 3] {
            let mut done = Done::default();
            done.add(10, skipped, 2);
            let why = done.verdict("copies", "--minutes").unwrap_err();
            assert!(why.contains('2') && why.contains("led to faults"), "{why}");
        }
    }
}
