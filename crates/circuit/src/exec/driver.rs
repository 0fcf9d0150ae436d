//! Driver of a device that a program controls.

use lighthaul_base::Rate;
use lighthaul_io::host::clock::Clock;

use crate::circuit::CircuitId;
use crate::driver::{Capabilities, Change, Driver, InstalledCircuit};
use crate::error::Result;
use crate::exec::config::Config;
use crate::exec::message::{JsonChange, Request};
use crate::exec::session::Session;

/// Driver of a device that a program controls.
#[derive(Debug)]
pub struct Exec {
    session: Session,
    capabilities: Capabilities,
}

impl Exec {
    /// Starts the program, and takes the capabilities that it reports.
    pub fn open(clock: Clock, config: Config) -> Result<Self> {
        let (session, capabilities) = Session::open(clock, config)?;
        Ok(Self {
            session,
            capabilities,
        })
    }

    /// Returns the program's results of `count` changes.
    fn results(&mut self, request: &Request<'_>, count: usize) -> Result<Vec<Result<()>>> {
        self.session.ask(request, |answer| answer.results(count))
    }
}

impl Driver for Exec {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        let json = changes.iter().map(|change| JsonChange {
            id: change.circuit.id,
            interface: &change.circuit.interface,
            flow: change.circuit.flow,
            rate_bps: change.rate.map_or(0, Rate::as_bps),
            timer_ms: change.timer.map(|time| time.as_millis() as u64),
        });
        let request = Request::Apply {
            changes: json.collect(),
        };
        self.results(&request, changes.len()).unwrap_or_else(|why| {
            // the failure is that of every change
            vec![Err(why); changes.len()]
        })
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        let results = self.results(&Request::Remove { id }, 1)?;
        results.into_iter().collect()
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        // a device may have more circuits than its maximum, such as those of another client
        let most = usize::MAX;
        self.session
            .ask(&Request::Inspect, |answer| answer.circuits(most))
    }
}
