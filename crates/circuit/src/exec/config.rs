//! The program of a driver.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};

/// Which program, and how long it may take.
#[derive(Clone, Debug)]
pub struct Config {
    /// The program.
    pub program: PathBuf,
    /// What is said to it before the request.
    pub arguments: Vec<String>,
    /// How long it may take to answer.
    pub limit: Duration,
}

impl Config {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<()> {
        if !self.program.is_absolute() {
            return Err(Error::Misuse(format!(
                "the driver's program is {}: say where it is from the root on",
                self.program.display()
            )));
        }
        if self.limit.is_zero() || self.limit > LIMIT_MAX {
            let why = "a driver's program has at least a moment and at most ten minutes to answer";
            return Err(Error::Misuse(why.to_owned()));
        }
        Ok(())
    }
}

const LIMIT_MAX: Duration = Duration::from_mins(10);
