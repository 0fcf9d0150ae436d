//! `lighthaul wrap`: runs a program whose connections go through a gateway.

use std::os::unix::process::CommandExt;

use lighthaul_grammar::wrap::Wrap;
use lighthaul_launch::command::command;
use lighthaul_launch::failure::StartError;

use crate::output::print::say;

/// Replaces this process by the command. Returns an exit status if that fails.
pub(crate) fn run(args: &Wrap) -> u8 {
    let failure = match command(&args.command, &args.socks.0) {
        Ok(mut command) => {
            let why = command.exec();
            StartError::blocked(format!("cannot run {}: {why}", args.command[0].display()))
        }
        Err(failure) => failure,
    };
    say(&format!("lighthaul wrap: {}", failure.text));
    failure.status
}
