//! The question before files are deleted.

use std::io::{IsTerminal, stdin};

use lighthaul::{Client, CopyRequest};
use lighthaul_base::counted;
use lighthaul_grammar::copy::Cp;
use lighthaul_remote::place::Place;
use lighthaul_remote::question::is_confirmed;
use lighthaul_session::error::Error;

use crate::error::usage;

/// Asks before `--delete`, unless `--yes` or `--dry-run` is given. A dry run counts the items first.
pub(super) fn confirm(args: &Cp, client: &Client, request: &CopyRequest) -> Result<(), Error> {
    let choice = &args.choice;
    if !choice.delete || choice.yes || choice.dry_run.is_some() {
        return Ok(());
    }
    if !stdin().is_terminal() {
        return Err(usage(
            "--delete removes files: add --yes, or look at --dry-run first",
        ));
    }
    let Some((target, sources)) = args.paths.split_last() else {
        return Ok(());
    };
    // another login may ask for a password
    let is_ssh = |path: &String| matches!(Place::parse(path), Ok(Place::Ssh { .. }));
    let count = if args.paths.iter().any(is_ssh) {
        None
    } else {
        Some(client.plan(request)?.deletions)
    };
    if count == Some(0) || is_confirmed(&question(count, &sources.join(" "), target))? {
        return Ok(());
    }
    Err(usage("nothing was copied, and nothing deleted"))
}

/// Returns the question about a number of deletions, or about deletions that a comparison will find.
fn question(count: Option<u64>, sources: &str, target: &str) -> String {
    match count {
        None => format!(
            "Compare {target} with {sources}, and delete what only {target} has (-n lists it)? [y/N] "
        ),
        Some(count) => {
            let items = counted(count, "item", "items");
            format!("Delete {items} of {target} that {sources} does not have? [y/N] ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_has_the_number_of_deletions_or_names_the_compared_directories() {
        for (count, text) in [
            (
                Some(1),
                "Delete 1 item of far:b that a/ does not have? [y/N] ",
            ),
            (
                Some(30),
                "Delete 30 items of far:b that a/ does not have? [y/N] ",
            ),
            (
                None,
                "Compare far:b with a/, and delete what only far:b has (-n lists it)? [y/N] ",
            ),
        ] {
            assert_eq!(question(count, "a/", "far:b"), text);
        }
    }
}
