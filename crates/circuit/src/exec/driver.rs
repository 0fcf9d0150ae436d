//! Driver that runs a program, and the protocol between both.
//!
//! The program is started for each request, reads it from standard input, and writes an answer to standard output:
//!
//! ```text
//! {"version":1,"verb":"capabilities"}
//!     {"capabilities":{"rate_min_bps":1000000,"rate_max_bps":10000000000,"granularity_bps":1000000,
//!      "guard_nanos":10000000,"entries_max":96,"is_hitless":false,"overhead_bytes":38}}
//! {"version":1,"verb":"apply","changes":[{"id":7,"interface":"1/1/3","flow":"udp 10.0.0.2/32 5000-5000","rate_bps":0}]}
//!     {"answers":[null]}     or the reason of a failure, for each change
//! {"version":1,"verb":"remove","id":7}
//!     {"answers":[null]}
//! {"version":1,"verb":"inspect"}
//!     {"circuits":[{"id":7,"flow":"udp 10.0.0.2/32 5000-5000","rate":0}]}
//! ```
//!
//! A rate of zero is a circuit that exists but takes no packets. A request that is in force already succeeds.

use lighthaul_base::Rate;
use lighthaul_io::host::clock::Clock;
use serde::Serialize;

use crate::circuit::CircuitId;
use crate::driver::{Capabilities, Change, Driver, InstalledCircuit};
use crate::error::{Error, ProgramFault, Result};
use crate::exec::answer::Answer;
use crate::exec::config::Config;
use crate::exec::program;
use crate::flow::Flow;

/// Driver of a device that a program controls.
#[derive(Debug)]
pub struct Exec {
    config: Config,
    clock: Clock,
    capabilities: Capabilities,
}

impl Exec {
    /// Starts the driver with the capabilities that the program reports.
    pub fn open(clock: Clock, config: Config) -> Result<Self> {
        config.check()?;
        let answer = run(clock, &config, &Request::Capabilities)?;
        let capabilities = answer
            .capabilities()
            .ok_or_else(|| missing_answer(&config))?;
        capabilities.check()?;
        Ok(Self {
            config,
            clock,
            capabilities,
        })
    }

    fn ask(&self, request: &Request<'_>) -> Result<Answer> {
        run(self.clock, &self.config, request)
    }

    /// Returns the program's results of `count` changes.
    fn answers(&self, request: &Request<'_>, count: usize) -> Result<Vec<Result<()>>> {
        let results = self.ask(request)?.results(count);
        results.ok_or_else(|| missing_answer(&self.config))
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
        });
        let request = Request::Apply {
            changes: json.collect(),
        };
        self.answers(&request, changes.len()).unwrap_or_else(|why| {
            // the failure is that of every change
            vec![Err(why); changes.len()]
        })
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        let answers = self.answers(&Request::Remove { id }, 1)?;
        answers.into_iter().collect()
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        let answer = self.ask(&Request::Inspect)?;
        let circuits = answer.circuits(self.capabilities.entries_max);
        circuits.ok_or_else(|| missing_answer(&self.config))
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
enum Request<'a> {
    Capabilities,
    Apply { changes: Vec<JsonChange<'a>> },
    Remove { id: CircuitId },
    Inspect,
}

#[derive(Debug, Serialize)]
struct Versioned<'a> {
    version: u32,
    #[serde(flatten)]
    request: &'a Request<'a>,
}

#[derive(Debug, Serialize)]
struct JsonChange<'a> {
    id: CircuitId,
    interface: &'a str,
    flow: Flow,
    rate_bps: u64,
}

fn run(clock: Clock, config: &Config, request: &Request<'_>) -> Result<Answer> {
    let said = Versioned {
        version: VERSION,
        request,
    };
    let failed = |fault: ProgramFault| Error::Program {
        program: config.program.display().to_string(),
        fault,
    };
    let said = serde_json::to_vec(&said).map_err(|why| {
        failed(ProgramFault::Run {
            why: why.to_string(),
            tail: String::new(),
        })
    })?;
    let answer = program::run(clock, config, &said)?;
    Answer::parse(&answer).map_err(|why| {
        let begin = String::from_utf8_lossy(&answer[..answer.len().min(SHOWN)]).into_owned();
        let why = why.to_string();
        failed(ProgramFault::Malformed { begin, why })
    })
}

fn missing_answer(config: &Config) -> Error {
    Error::Program {
        program: config.program.display().to_string(),
        fault: ProgramFault::NoAnswer,
    }
}

const VERSION: u32 = 1;
/// Maximum length of an answer in an error, in bytes.
const SHOWN: usize = 200;
