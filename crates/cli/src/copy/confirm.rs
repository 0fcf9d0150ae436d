//! The question before files are removed.

use std::io::{IsTerminal, stdin};

use lighthaul_grammar::choice::FileArgs;
use lighthaul_remote::question::is_confirmed;
use lighthaul_session::error::Error;

use crate::error::usage;

/// Asks before `--delete`, unless `--yes` or `--dry-run` is given.
pub(crate) fn confirm(choice: &FileArgs, paths: &[String]) -> Result<(), Error> {
    if !choice.delete || choice.yes || choice.dry_run.is_some() {
        return Ok(());
    }
    let refuse = |text: &'static str| Err(usage(text));
    if !stdin().is_terminal() {
        return refuse("--delete removes files: add --yes, or look at --dry-run first");
    }
    let target = paths.last().map_or("", String::as_str);
    let question = format!("Remove from {target} what the source does not have? [y/N] ");
    if is_confirmed(&question)? {
        Ok(())
    } else {
        refuse("nothing was copied, and nothing removed")
    }
}
