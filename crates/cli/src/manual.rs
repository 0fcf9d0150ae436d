//! The version, completions and man pages, from the grammar that the command itself reads.

use std::fs;

use lighthaul_grammar::help::command;
use lighthaul_grammar::manual::{Completions, Help, Man};
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::message::VERSION;
use serde_json::json;

use crate::complete;
use crate::error::usage;
use crate::output::print::{print, print_json, record};
use lighthaul_grammar::man_page;

/// Prints completions.
pub(crate) fn completions(args: &Completions) -> Result<(), Error> {
    print(&complete::script(args.shell)?);
    Ok(())
}

/// Prints the help of a command.
pub(crate) fn help(args: &Help) -> Result<(), Error> {
    let words = args.command.iter().map(String::as_str);
    let words = ["lighthaul"].into_iter().chain(words).chain(["--help"]);
    match command().try_get_matches_from(words) {
        Err(shown) if !shown.use_stderr() => record(shown.print()),
        Err(_) | Ok(_) => {
            let name = args.command.join(" ");
            return Err(usage(format!(
                "no command is called `{name}`; `lighthaul -h` lists them"
            )));
        }
    }
    Ok(())
}

/// Commit that the program was built from; empty if it is unknown.
const COMMIT: &str = env!("LIGHTHAUL_COMMIT");
/// Optional features of the build.
const FEATURES: &[&str] = &[
    #[cfg(feature = "lab")]
    "lab",
    #[cfg(feature = "mount")]
    "mount",
    #[cfg(feature = "objects")]
    "objects",
    #[cfg(feature = "otel")]
    "otel",
    #[cfg(feature = "scheduler")]
    "scheduler",
];
/// True if the program needs no shared library.
const STATIC: bool = cfg!(target_feature = "crt-static");

/// Prints the version.
pub(crate) fn version(json: bool) {
    let version = env!("CARGO_PKG_VERSION");
    if json {
        let event = json!({
            "v": 1,
            "type": "version",
            "version": version,
            "protocol": VERSION,
            "commit": COMMIT,
            "features": FEATURES,
            "static": STATIC,
        });
        print_json(&event);
        return;
    }
    let commit = (!COMMIT.is_empty()).then(|| format!("commit {COMMIT}"));
    let linked = STATIC.then(|| "static".to_owned());
    let features = (!FEATURES.is_empty()).then(|| format!("features {}", FEATURES.join(" ")));
    let details: Vec<String> = [commit, linked, features].into_iter().flatten().collect();
    if details.is_empty() {
        print(&format!("lighthaul {version}"));
    } else {
        print(&format!("lighthaul {version} ({})", details.join(", ")));
    }
}

/// Writes man pages.
pub(crate) fn man(args: &Man) -> Result<(), Error> {
    fs::create_dir_all(&args.folder)
        .and_then(|()| man_page::write_all(command(), &args.folder))
        .map_err(|e| Error::file(FileAction::Write, &args.folder, &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    /// The command and all below it, with their names.
    fn all(command: &Command, above: &str, found: &mut Vec<(String, Command)>) {
        let name = format!("{above}{}", command.get_name());
        for inner in command.get_subcommands().filter(|c| c.get_name() != "help") {
            all(inner, &format!("{name} "), found);
        }
        found.push((name, command.clone()));
    }

    fn commands() -> Vec<(String, Command)> {
        let mut cli = command();
        cli.build();
        let mut found = Vec::new();
        all(&cli, "", &mut found);
        assert!(found.len() > 15, "{found:?}");
        found
    }

    #[test]
    fn grammar_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_and_option_has_help() {
        for (name, command) in commands() {
            assert!(command.get_about().is_some(), "{name} has no help");
            for flag in command.get_arguments() {
                let id = flag.get_id();
                assert!(flag.get_help().is_some(), "{name}: {id} has no help");
            }
        }
    }

    #[test]
    fn every_visible_command_has_a_man_page() {
        let folder = std::env::temp_dir().join(format!("lighthaul-man-{}", std::process::id()));
        man(&Man {
            folder: folder.clone(),
        })
        .unwrap();
        for (name, command) in commands() {
            let path = folder.join(format!("{}.1", name.replace(' ', "-")));
            if command.is_hide_set() {
                continue;
            }
            let page = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            for section in [
                "NAME",
                "SYNOPSIS",
                "EXAMPLES",
                "\"EXIT STATUS\"",
                "FILES",
                "\"SEE ALSO\"",
            ] {
                let heading = format!("\n.SH {section}\n");
                assert_eq!(page.matches(&heading).count(), 1, "{path:?}: {section}");
            }
            assert!(!page.contains(".SH EXTRA"), "{path:?}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
