//! Results of the trials.

use std::fmt;

use lighthaul_base::Size;

/// Copy that was killed and repeated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    /// Number of the trial.
    pub(crate) number: u64,
    /// Process that was killed, and the time in seconds; `None` if the copy had ended before.
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

pub(crate) const CLIENT: &str = "client";
pub(crate) const DAEMON: &str = "daemon";
