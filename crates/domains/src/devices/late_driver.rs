//! Driver of a device that could not be opened at the start.
//!
//! Its capabilities are those of the last start. It is opened again before a call, after 1 s, 2 s, 4 s ... 30 s. Until
//! then it does not answer, so its paths keep their rates, and other devices work as always.

use std::fmt;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Capabilities, Change, Driver, InstalledCircuit};
use lighthaul_circuit::error::{Error, Result};
use lighthaul_io::host::clock::Clock;
use tracing::{info, warn};

/// Function that opens a driver.
pub(crate) type Open = Box<dyn Fn() -> Result<Box<dyn Driver>> + Send>;

/// Driver of a device that may not be open yet.
pub(crate) struct LateDriver {
    interface: String,
    capabilities: Capabilities,
    open: Open,
    driver: Option<Box<dyn Driver>>,
    /// Last fault.
    why: String,
    clock: Clock,
    /// Earliest time of the next attempt, and the time until the one after it.
    open_at: Instant,
    pause: Duration,
}

impl LateDriver {
    /// Returns a driver with these capabilities that could not be opened for a reason.
    pub(crate) fn new(
        (interface, capabilities): (&str, Capabilities),
        open: Open,
        why: &Error,
    ) -> Self {
        let why = why.to_string();
        warn!(
            interface,
            why,
            "a device cannot be used yet; its paths wait, the service starts without it and tries again"
        );
        Self {
            interface: interface.to_owned(),
            capabilities,
            open,
            driver: None,
            why,
            clock: Clock::start(),
            open_at: Instant::ZERO,
            pause: PAUSE_MIN,
        }
    }

    /// Returns the driver, which is opened if necessary.
    fn driver(&mut self) -> Result<&mut Box<dyn Driver>> {
        if self.driver.is_none() && self.clock.now() >= self.open_at {
            match self.try_open() {
                Ok(driver) => {
                    info!(interface = self.interface, "a device can be used now");
                    self.driver = Some(driver);
                }
                Err(why) => self.why = why.to_string(),
            }
            self.open_at = self.clock.now() + self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        let why = &self.why;
        let driver = self.driver.as_mut();
        driver.ok_or_else(|| Error::Unreachable(why.clone()))
    }

    fn try_open(&self) -> Result<Box<dyn Driver>> {
        let driver = (self.open)()?;
        if driver.capabilities() == self.capabilities {
            return Ok(driver);
        }
        let why = "its capabilities differ from those of the last start; start the service again";
        Err(Error::Unreachable(why.to_owned()))
    }
}

impl Driver for LateDriver {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        match self.driver() {
            Ok(driver) => driver.apply(changes),
            Err(why) => vec![Err(why); changes.len()],
        }
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        self.driver()?.remove(id)
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        self.driver()?.inspect()
    }
}

impl fmt::Debug for LateDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateDriver")
            .field("interface", &self.interface)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

/// Time between the first two attempts, and the longest time between two.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
