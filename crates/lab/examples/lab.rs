//! The lab by hand: `lab [--rate R] [--rtt T] ... [DESCRIPTION.toml] [--in HOST] [-v] -- COMMAND...`,
//! or `lab on HOST -- COMMAND...` from inside.
#![expect(clippy::print_stderr, reason = "an example speaks")]

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use lighthaul_io::clock::cpu_seconds;
use lighthaul_io::namespace::outlive_interrupts;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, command_on};
use lighthaul_lab::settings::{LinkSettings, Settings};

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            eprintln!("lab: {why}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<u8, Box<dyn std::error::Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let end = words
        .iter()
        .position(|w| w == "--")
        .ok_or("-- COMMAND is missing")?;
    let command = words.split_off(end + 1);
    let (program, rest) = command.split_first().ok_or("COMMAND is missing")?;
    words.pop();
    if words.first().is_some_and(|w| w == "on") {
        let host = words.get(1).ok_or("on which host?")?;
        return Err(command_on(host, program)?.args(rest).exec().into());
    }
    let (mut link, mut seed, mut host, mut file) = (LinkSettings::default(), None, None, None);
    let mut is_verbose = false;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next();
        match word.as_str() {
            "-v" => is_verbose = true,
            "--in" => host = value(),
            "--rate" => link.both.rate = value(),
            "--rtt" => link.rtt = value(),
            "--delay" => link.both.delay = value(),
            "--queue" => link.both.queue = value(),
            "--loss" => link.both.loss = value(),
            "--burst-loss" => link.both.burst_loss = value(),
            "--reorder" => link.both.reorder = value(),
            "--duplicate" => link.both.duplicate = value(),
            "--kind" => link.kind = value(),
            "--segment" => link.segment = Some(true),
            "--mtu" => link.mtu = value().map(|v| v.parse()).transpose()?,
            "--seed" => seed = value().map(|v| v.parse()).transpose()?,
            _ if word.starts_with('-') => return Err(format!("no flag {word}").into()),
            _ => file = Some(word),
        }
    }
    let description = match file {
        Some(path) => Description::parse(&std::fs::read_to_string(path)?)?,
        None => Description::new(&Settings::pair(link, seed))?,
    };
    outlive_interrupts();
    let lab = Lab::start(&description)?;
    let host = host.unwrap_or_else(|| description.hosts()[0].clone());
    let status = lab.run(&host, &command)?;
    if is_verbose {
        eprint!("{}", lab.counters());
        eprintln!("the links took {:.2} s of CPU", cpu_seconds());
    }
    Ok(u8::try_from(status.code().unwrap_or(255))?)
}
