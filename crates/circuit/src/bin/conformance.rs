//! Runs the conformance suite for the program of a driver:
//!
//! ```text
//! cargo run -p lighthaul-circuit --bin lighthaul-conformance -- \
//!     [--device FILE] [--limit SECONDS] [--seed N] PROGRAM [ARGUMENT]...
//! ```
//!
//! With `--device`, FILE is passed as last argument, and faults are put there as the skeletons read them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lighthaul_circuit::conformance::{ProgramSubject, run};
use lighthaul_circuit::exec::config::Config;
use lighthaul_io::host::clock::{Clock, unix_nanos};

fn main() -> ExitCode {
    match settings(std::env::args().skip(1)) {
        Ok((mut subject, seed)) => {
            let report = run(&mut subject, seed);
            println!("{report}");
            if report.is_passed() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(why) => {
            eprintln!(
                "{why}\nusage: lighthaul-conformance [--device FILE] [--limit SECONDS] [--seed N] PROGRAM [ARGUMENT]..."
            );
            ExitCode::from(2)
        }
    }
}

fn settings(words: impl Iterator<Item = String>) -> Result<(ProgramSubject, u64), String> {
    let mut words = words.peekable();
    let (mut device, mut limit, mut seed) = (None, 10, unix_nanos());
    while let Some(option) = words.next_if(|word| word.starts_with("--")) {
        let value = words
            .next()
            .ok_or_else(|| format!("{option} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{value} is no number"));
        match option.as_str() {
            "--device" => device = Some(PathBuf::from(&value)),
            "--limit" => limit = number()?,
            "--seed" => seed = number()?,
            _ => return Err(format!("there is no option {option}")),
        }
    }
    let program = words.next().ok_or("the program is missing")?;
    let program = std::path::absolute(program).map_err(|why| why.to_string())?;
    let config = Config {
        program,
        arguments: words.collect(),
        limit: Duration::from_secs(limit),
    };
    Ok((ProgramSubject::new(Clock::start(), config, device), seed))
}
