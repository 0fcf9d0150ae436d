//! Configuration of a driver's program.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Misuse, Result};

/// Program and its time limit.
#[derive(Clone, Debug)]
pub struct Config {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Time limit for an answer.
    pub limit: Duration,
}

impl Config {
    /// Refuses a relative path and an unreasonable time limit.
    pub fn check(&self) -> Result<()> {
        if !self.program.is_absolute() {
            return Err(Misuse::RelativeProgram(self.program.clone()).into());
        }
        if self.limit.is_zero() || self.limit > LIMIT_MAX {
            return Err(Misuse::TimeLimit.into());
        }
        Ok(())
    }
}

const LIMIT_MAX: Duration = Duration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_programs_and_unreasonable_limits_are_refused() {
        let config = |program: &str, limit| Config {
            program: program.into(),
            arguments: Vec::new(),
            limit,
        };
        let nano = Duration::from_nanos(1);
        for limit in [nano, LIMIT_MAX] {
            assert!(config("/bin/sh", limit).check().is_ok(), "{limit:?}");
        }
        for limit in [Duration::ZERO, LIMIT_MAX + nano] {
            assert!(config("/bin/sh", limit).check().is_err(), "{limit:?}");
        }
        assert!(config("bin/sh", nano).check().is_err());
    }
}
