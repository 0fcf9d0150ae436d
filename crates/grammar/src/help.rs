//! The grammar as a [`Command`], with the common parts of the help of all commands.
//!
//! `-h` shows the options that most users need, `--help` all of them, with their values and environment variables.

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::cli::Cli;

/// Returns the command line of `lighthaul`.
pub fn command() -> Command {
    // without empty lines and the heading of the commands, their list fits a terminal
    complete(Cli::command().help_template(TEMPLATE))
}

/// Completes the help of a command and of its subcommands.
fn complete(command: Command) -> Command {
    let has_more = command.get_arguments().any(Arg::is_hide_short_help_set);
    let has_groups = command
        .get_arguments()
        .any(|arg| arg.get_help_heading().is_some());
    let heading: Option<&'static str> = has_groups.then_some(OUTPUT);
    let has_h = command
        .get_arguments()
        .any(|arg| arg.get_short() == Some('h'));
    let help = Arg::new("help");
    // -h has another meaning in ls and du
    let help = if has_h { help } else { help.short('h') };
    let help = help
        .long("help")
        .help(if has_more && !has_h {
            SUMMARY
        } else {
            "Print help"
        })
        .help_heading(heading)
        .action(ArgAction::Help);
    let mut command = command.mut_args(describe).disable_help_flag(true).arg(help);
    if has_more {
        // clap would print it behind all options, too
        let long = command.get_after_long_help().cloned();
        let long = long.unwrap_or_else(|| SETTINGS.into());
        command = command.after_help(MORE).after_long_help(long);
    }
    // the help of one command at most is printed
    command.mut_subcommands(|sub| sub.defer(complete))
}

/// Moves the values of an option and its environment variable to the text that only `--help` shows.
fn describe(arg: Arg) -> Arg {
    let mut notes = Vec::new();
    let has_value = arg.get_action().takes_values();
    let values = arg.get_possible_values();
    let has_choice = has_value && !values.is_empty();
    if has_choice {
        notes.push("Values:".to_owned());
        let shown = values.iter().filter(|value| !value.is_hide_set());
        notes.extend(shown.map(|value| match value.get_help() {
            Some(help) => format!("- {}: {help}", value.get_name()),
            None => format!("- {}", value.get_name()),
        }));
    }
    if let Some(variable) = arg.get_env() {
        notes.push(format!("[env: {}]", variable.display()));
    }
    if notes.is_empty() {
        return arg;
    }
    let text = arg.get_long_help().or_else(|| arg.get_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    let arg = arg.long_help(format!("{text}\n\n{}", notes.join("\n")));
    let arg = arg.hide_env(true);
    if has_choice {
        arg.hide_possible_values(true)
    } else {
        arg
    }
}

const TEMPLATE: &str = "{about-with-newline}{usage-heading} {usage}\n{subcommands}\n{options}";
const OUTPUT: &str = "Output";
const SUMMARY: &str = "Print this summary; --help prints all options";
const MORE: &str = "See all options with --help";
const SETTINGS: &str =
    "`lighthaul config` prints the settings in force and the files they come from.";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all visible commands with their full names, built for a terminal of 80 columns.
    fn commands() -> Vec<(String, Command)> {
        let mut root = command().term_width(COLUMNS);
        root.build();
        let mut found = Vec::new();
        collect(&root, "", &mut found);
        assert!(found.len() > 25, "{} commands", found.len());
        found
    }

    fn collect(command: &Command, above: &str, found: &mut Vec<(String, Command)>) {
        let name = format!("{above}{}", command.get_name());
        let shown = |inner: &&Command| inner.get_name() != "help" && !inner.is_hide_set();
        for inner in command.get_subcommands().filter(shown) {
            collect(inner, &format!("{name} "), found);
        }
        found.push((name, command.clone()));
    }

    fn options(command: &Command) -> impl Iterator<Item = &Arg> {
        let is_own = |arg: &&Arg| arg.get_id() != "help" && !arg.is_hide_set();
        command.get_opts().chain(flags(command)).filter(is_own)
    }

    fn flags(command: &Command) -> impl Iterator<Item = &Arg> {
        let all = command.get_arguments();
        all.filter(|arg| !arg.is_positional() && !arg.get_action().takes_values())
    }

    #[test]
    fn short_help_fits_a_terminal() {
        let mut faults = Vec::new();
        for (name, mut command) in commands() {
            let help = command.render_help().to_string();
            let lines = help.trim_end().lines().count();
            if lines > LINES {
                faults.push(format!("{name} -h has {lines} lines:\n{help}"));
            }
            let wide = help.lines().filter(|line| line.chars().count() > COLUMNS);
            faults.extend(wide.map(|line| format!("{name} -h is too wide: {line}")));
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn every_option_has_a_group_and_a_description() {
        let mut faults = Vec::new();
        for (name, command) in commands() {
            for arg in options(&command) {
                let id = arg.get_id();
                if arg.get_help_heading().is_none() {
                    faults.push(format!("{name}: {id} has no heading"));
                }
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                if help.is_empty() || help.ends_with('.') || help.len() > COLUMNS {
                    faults.push(format!("{name}: {id} has the help {help:?}"));
                }
            }
            for arg in command.get_positionals() {
                if arg.get_help().is_none() || arg.get_help_heading().is_some() {
                    faults.push(format!("{name}: {} has no help of its own", arg.get_id()));
                }
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn long_help_shows_every_option_with_its_default() {
        for (name, mut command) in commands() {
            let help = command.render_long_help().to_string();
            for arg in options(&command) {
                let long = arg.get_long().unwrap_or_default();
                assert!(help.contains(&format!("--{long}")), "{name}: --{long}");
                for value in arg.get_default_values() {
                    let value = value.to_string_lossy();
                    let shown = format!("[default: {value}]");
                    let is_plain = value.is_empty() || !arg.get_action().takes_values();
                    assert!(
                        is_plain || help.contains(&shown),
                        "{name}: --{long} {shown}"
                    );
                }
            }
        }
    }

    #[test]
    fn defaults_are_shown_in_brackets() {
        for (name, command) in commands() {
            for arg in options(&command) {
                let long = arg.get_long_help().map(ToString::to_string);
                let says = long.is_some_and(|help| help.to_lowercase().contains("default is"));
                assert!(!says, "{name}: {}: write [default: ...]", arg.get_id());
            }
        }
    }

    #[test]
    fn short_help_of_a_long_grammar_names_the_long_help() {
        for (name, mut command) in commands() {
            let has_more = command.get_arguments().any(Arg::is_hide_short_help_set);
            let help = command.render_help().to_string();
            assert_eq!(help.contains(MORE), has_more, "{name}");
            let help = command.render_long_help().to_string();
            assert!(!help.contains(MORE), "{name}");
        }
    }

    const COLUMNS: usize = 80;
    const LINES: usize = 40;
}
