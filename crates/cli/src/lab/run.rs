//! `lighthaul lab`.

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
            Err(Fault::Program { program, error }.into())
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
    Description::new(&Settings::pair(link, flags.seed)).map_err(|e| usage(&e))
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
