//! Driver under test, and comparisons of its device with the expected state.

use std::time::Duration;

use lighthaul_base::{Instant, Rate, Trc, trc::Step};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;

use crate::circuit::{Circuit, CircuitId};
use crate::conformance::outcome::Outcome;
use crate::conformance::subject::{State, Subject};
use crate::driver::{Capabilities, Change, Driver, InstalledCircuit};
use crate::error::Result as DriverResult;
use crate::flow::{Flow, Protocol};

/// Result of a check; an error says how the driver fails it.
pub(super) type Checked<T = Outcome> = Result<T, String>;

/// Check of a driver.
pub(super) type Check = dyn Fn(&mut Kit<'_>) -> Checked;

/// Driver under test.
pub(super) struct Kit<'a> {
    pub(super) subject: &'a mut dyn Subject,
    pub(super) can: Capabilities,
    driver: Option<Box<dyn Driver>>,
    /// True if circuits of a check could not be removed, so that no further check can begin.
    pub(super) is_stuck: bool,
}

impl<'a> Kit<'a> {
    /// Opens the driver of a device without circuits.
    pub(super) fn new(subject: &'a mut dyn Subject) -> Checked<Self> {
        let mut driver = subject.open().map_err(|why| why.to_string())?;
        let can = driver.capabilities();
        can.check().map_err(|why| why.to_string())?;
        let found = driver.inspect().map_err(|why| why.to_string())?;
        if !found.is_empty() {
            let count = found.len();
            return Err(format!(
                "the device has {count} circuits, and the suite would remove them: start it with none"
            ));
        }
        Ok(Self {
            subject,
            can,
            driver: Some(driver),
            is_stuck: false,
        })
    }

    /// Runs a check of a device without circuits, and removes the circuits that it leaves.
    pub(super) fn run(&mut self, check: &Check) -> Outcome {
        let outcome = check(self);
        // a driver that failed may have to be opened again
        let cleared = self
            .clear()
            .or_else(|_| self.reopen().and_then(|()| self.clear()));
        self.is_stuck = cleared.is_err();
        outcome
            .and_then(|outcome| cleared.map(|()| outcome))
            .unwrap_or_else(Outcome::Failed)
    }

    /// Ends the driver; the next use opens it again.
    pub(super) fn close(&mut self) {
        self.driver = None;
    }

    /// Opens the driver again.
    pub(super) fn reopen(&mut self) -> Checked<()> {
        self.driver = None;
        self.driver().map(drop)
    }

    pub(super) fn driver(&mut self) -> Checked<&mut dyn Driver> {
        let driver = if let Some(driver) = self.driver.take() {
            driver
        } else {
            let opened = self.subject.open();
            opened.map_err(|why| format!("it cannot be opened again: {why}"))?
        };
        Ok(self.driver.insert(driver).as_mut())
    }

    /// Hands the driver over to the caller.
    pub(super) fn take_driver(&mut self) -> Checked<Box<dyn Driver>> {
        self.driver()?;
        self.driver.take().ok_or_else(|| "it is gone".to_owned())
    }

    /// Returns a circuit that shares no packets with other circuits.
    pub(super) fn circuit(&self, id: u64) -> Circuit {
        let rate = self.can.rate_min;
        let step = Step {
            from: Instant::ZERO,
            till: Instant::ZERO + Duration::from_hours(1),
            rate,
        };
        let port = 1000 + (id % 60_000) as u16;
        let flow = Flow::new(Some(Protocol::Udp), None, Some((port, port)));
        Circuit {
            id: CircuitId(id),
            interface: self.subject.interface(),
            flow: flow.unwrap_or(Flow::ALL),
            trc: Trc::new(vec![step]).expect("one step is a vector"),
        }
    }

    /// Changes circuits with one call.
    pub(super) fn apply(
        &mut self,
        changes: &[(u64, Option<Rate>)],
    ) -> Checked<Vec<DriverResult<()>>> {
        let circuits = changes
            .iter()
            .map(|(id, rate)| (self.circuit(*id), *rate))
            .collect::<Vec<_>>();
        let results = self.driver()?.apply(&Change::list(&circuits));
        if results.len() != changes.len() {
            let (given, wanted) = (results.len(), changes.len());
            return Err(format!("it gave {given} results for {wanted} changes"));
        }
        Ok(results)
    }

    /// Changes a circuit, which must succeed.
    pub(super) fn set(&mut self, id: u64, rate: Option<Rate>) -> Checked<()> {
        let result = self.apply(&[(id, rate)])?.remove(0);
        result.map_err(|why| format!("circuit {id} was not set to {}: {why}", shown(rate)))
    }

    /// Opens a circuit with a timer, which must succeed.
    pub(super) fn set_for(&mut self, id: u64, rate: Option<Rate>, time: Duration) -> Checked<()> {
        let circuit = self.circuit(id);
        let change = Change {
            circuit: &circuit,
            rate,
            timer: Some(time),
        };
        let result = self.driver()?.apply(&[change]).into_iter().collect();
        let result: DriverResult<()> = result;
        result.map_err(|why| format!("circuit {id} was not set with a timer: {why}"))
    }

    /// Removes a circuit, which must succeed.
    pub(super) fn remove(&mut self, id: u64) -> Checked<()> {
        let result = self.driver()?.remove(CircuitId(id));
        result.map_err(|why| format!("circuit {id} was not removed: {why}"))
    }

    /// Inspects the device, and repeats a failed inspection for a while.
    pub(super) fn inspect(&mut self) -> Checked<Vec<InstalledCircuit>> {
        let clock = Clock::start();
        loop {
            match self.driver()?.inspect() {
                Ok(found) => return Ok(found),
                Err(why) if clock.now() > Instant::ZERO + PATIENCE => {
                    return Err(format!("it cannot be inspected: {why}"));
                }
                Err(_) => pause(Duration::from_millis(50)),
            }
        }
    }

    /// Returns the circuits that the driver reports. Their flows must be right.
    pub(super) fn state(&mut self) -> Checked<State> {
        let mut state = State::new();
        for one in self.inspect()? {
            let flow = self.circuit(one.id.0).flow;
            if one.flow != Some(flow) {
                return Err(format!("{} has the flow {:?}", one.id, one.flow));
            }
            if state.insert(one.id, one.rate).is_some() {
                return Err(format!("{} was listed twice", one.id));
            }
        }
        Ok(state)
    }

    /// Compares the circuits that the driver reports, and the circuits of the device, with `expected`.
    pub(super) fn expect(&mut self, expected: &State) -> Checked<()> {
        let state = self.state()?;
        if state != *expected {
            let (found, wanted) = (text(&state), text(expected));
            return Err(format!("it reports {found} instead of {wanted}"));
        }
        self.subject.compare(expected).map(drop)
    }

    /// Removes all circuits.
    pub(super) fn clear(&mut self) -> Checked<()> {
        self.subject.calm();
        for one in self.inspect()? {
            self.remove(one.id.0)?;
        }
        self.expect(&State::new())
    }

    /// Returns `quarters` of the capacity, rounded down to a rate of the device.
    pub(super) fn quarters(&self, quarters: u64) -> Option<Rate> {
        let bits = u128::from(self.can.rate_max.as_bps()) * u128::from(quarters) / 4;
        let unit = u128::from(self.can.granularity.as_bps());
        let rate = Rate::from_bps(u64::try_from(bits - bits % unit).ok()?)?;
        Some(rate.max(self.least()))
    }

    /// Returns the lowest rate of the device.
    pub(super) fn least(&self) -> Rate {
        let unit = self.can.granularity.as_bps();
        let bits = self.can.rate_min.as_bps().next_multiple_of(unit);
        Rate::from_bps(bits).unwrap_or(self.can.rate_min)
    }
}

/// Returns a rate as text.
pub(super) fn shown(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "no rate".to_owned(), |rate| rate.to_string())
}

/// Returns circuits as text.
pub(super) fn text(state: &State) -> String {
    if state.is_empty() {
        return "no circuits".to_owned();
    }
    let circuits = state.iter();
    let circuits = circuits.map(|(id, rate)| format!("{id} with {}", shown(*rate)));
    circuits.collect::<Vec<_>>().join(", ")
}

/// Returns a state from pairs.
pub(super) fn state_of(pairs: &[(u64, Option<Rate>)]) -> State {
    let pairs = pairs.iter();
    pairs.map(|(id, rate)| (CircuitId(*id), *rate)).collect()
}

/// Time in which a driver recovers from a fault.
const PATIENCE: Duration = Duration::from_secs(5);
