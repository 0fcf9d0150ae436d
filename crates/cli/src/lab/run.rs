//! Command `lighthaul lab`: runs a command between test hosts with emulated links.
//!
//! `start` creates the lab from flags or from a TOML file, runs the command on one host, and
//! removes the lab. `lab on` executes a command on another host of the lab that it runs in.
//! Interrupts go to the command, so the lab itself ignores them. The exit status is that of the
//! command, or 128 plus the signal that ended it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::ExitStatus;

use lighthaul_grammar::lab::{Lab as LabArgs, LabFlags};
use lighthaul_io::host::clock::cpu_seconds;
use lighthaul_io::host::namespace::ignore_interrupts;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, command_on};
use lighthaul_lab::settings::{LinkSettings, Settings};
use lighthaul_session::error::{Error, FileAction};

use crate::error::Fault;
use crate::lab::fault::LabFault;
use crate::lab::figures;
use crate::output::print::say;

/// Runs the command between test hosts. Returns its exit status.
pub(crate) fn run(args: &LabArgs) -> Result<u8, Error> {
    match args {
        LabArgs::Run(run) => start(&run.flags, &run.command),
        LabArgs::Shell(flags) => {
            let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
            start(flags, &[shell])
        }
        LabArgs::Figures(args) => figures::run(args),
        LabArgs::On { host, command } => {
            let (program, rest) = command
                .split_first()
                .ok_or_else(|| usage(&"give a command to run"))?;
            let error = command_on(host, program)
                .map_err(|e| usage(&e))?
                .args(rest)
                .exec();
            let program = program.clone();
            Err(LabFault::Program { program, error }.into())
        }
    }
}

fn start(flags: &LabFlags, command: &[String]) -> Result<u8, Error> {
    let description = describe(flags)?;
    ignore_interrupts();
    let lab = Lab::start(&description).map_err(|e| usage(&e))?;
    let first = || description.hosts()[0].clone();
    let host = flags.host.clone().unwrap_or_else(first);
    let status = lab.run(&host, command).map_err(|e| usage(&e))?;
    if flags.verbose {
        lab.counters().to_string().lines().for_each(say);
        say(&format!("the links took {:.2} s of CPU", cpu_seconds()));
    }
    Ok(code(status))
}

fn describe(flags: &LabFlags) -> Result<Description, Error> {
    if let Some(path) = &flags.description {
        let text = fs::read_to_string(path).map_err(|e| Error::file(FileAction::Open, path, &e))?;
        return Description::parse(&text).map_err(|e| usage(&e));
    }
    Description::new(&settings(flags)).map_err(|e| usage(&e))
}

/// Returns the settings of two hosts and their link.
fn settings(flags: &LabFlags) -> Settings {
    let mut link = LinkSettings::default();
    link.both.rate.clone_from(&flags.rate);
    link.rtt.clone_from(&flags.rtt);
    link.both.delay.clone_from(&flags.delay);
    link.both.queue.clone_from(&flags.queue);
    link.both.loss.clone_from(&flags.loss);
    link.both.burst_loss.clone_from(&flags.burst_loss);
    link.both.reorder.clone_from(&flags.reorder);
    link.both.duplicate.clone_from(&flags.duplicate);
    link.kind.clone_from(&flags.kind);
    link.segment = flags.segment.then_some(true);
    link.mtu = flags.mtu;
    Settings::pair(link, flags.seed)
}

/// Returns the command's exit status, or 128 plus the signal that ended it, as shells do.
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let number = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    number
        .and_then(|number| u8::try_from(number).ok())
        .unwrap_or(255)
}

fn usage(error: &dyn std::fmt::Display) -> Error {
    Fault::Usage(error.to_string().into()).into()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use lighthaul_grammar::cli::{Cli, Command};
    use lighthaul_lab::settings::DirectionSettings;

    use super::*;

    /// Asserts that the flags make a lab with this link and seed, which is valid.
    fn assert_makes(flags: &[&str], link: LinkSettings, seed: Option<u64>) {
        let words = [&["lighthaul", "lab", "shell"], flags].concat();
        let command = Cli::try_parse_from(words).unwrap().command;
        let Some(Command::Lab(LabArgs::Shell(parsed))) = command else {
            panic!("it is another command");
        };
        describe(&parsed).unwrap();
        let expected = Settings::pair(link, seed);
        let found = settings(&parsed);
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{flags:?}");
    }

    #[test]
    fn each_flag_sets_its_own_property_of_the_link() {
        let some = |text: &str| Some(text.to_owned());
        let flags = [
            "--rate=11Mb/s",
            "--delay=12ms",
            "--queue=13MB",
            "--loss=0.14%",
            "--burst-loss=0.15%x16",
            "--reorder=1% by 17ms",
            "--duplicate=0.18%",
            "--kind=wan",
            "--mtu=1900",
            "--seed=20",
        ];
        let link = LinkSettings {
            kind: some("wan"),
            mtu: Some(1900),
            both: DirectionSettings {
                rate: some("11Mb/s"),
                delay: some("12ms"),
                queue: some("13MB"),
                loss: some("0.14%"),
                burst_loss: some("0.15%x16"),
                reorder: some("1% by 17ms"),
                duplicate: some("0.18%"),
                ..DirectionSettings::default()
            },
            ..LinkSettings::default()
        };
        assert_makes(&flags, link, Some(20));
        let link = LinkSettings {
            rtt: some("21ms"),
            ..LinkSettings::default()
        };
        assert_makes(&["--rtt=21ms"], link, None);
        let link = LinkSettings {
            kind: some("veth"),
            segment: Some(true),
            mtu: Some(2200),
            ..LinkSettings::default()
        };
        let flags = ["--kind=veth", "--segment", "--mtu=2200"];
        assert_makes(&flags, link, None);
    }
}
