//! Runs the conformance suite for the program of a driver:
//!
//! ```text
//! lighthaul-conformance [--device FILE] [--limit SECONDS] [--seed N] PROGRAM [ARGUMENT]...
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lighthaul_circuit::conformance::{ProgramSubject, run};
use lighthaul_circuit::exec::config::Config;
use lighthaul_io::host::clock::{Clock, unix_nanos};

const HELP: &str = "\
Run the conformance suite for the program of a driver

Usage: lighthaul-conformance [OPTIONS] PROGRAM [ARGUMENT]...

Options:
  --device FILE    last argument of the program; faults are put there as the skeletons read them
  --limit SECONDS  longest time of an answer [default: 10]
  --seed N         repeats the random part of an earlier run
  -h, --help       print this

Exit status: 0 if the driver passed, 1 if it failed, 2 if an option is wrong";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some("-h" | "--help") = words.first().map(String::as_str) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match settings(words.into_iter()) {
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
            eprintln!("lighthaul-conformance: {why}; see lighthaul-conformance --help");
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
