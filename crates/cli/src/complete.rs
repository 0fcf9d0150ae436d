//! Completion of words of the command line in shells: options, values, and paths here and on other hosts.
//!
//! The script of a shell calls this program with [`VARIABLE`] and the words so far. Paths on another host are those
//! that `lighthaul ls` lists there, within [`PATIENCE`] and without questions.

use std::any::TypeId;
use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use clap::{Arg, ValueHint};
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};
use lighthaul_grammar::help;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;
use serde_json::Value;

use crate::error::usage;

/// Variable that names the shell.
const VARIABLE: &str = "LIGHTHAUL_COMPLETE";
/// Longest wait for another host.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum number of octets that are read of an answer.
const ANSWER_MAX: u64 = 1 << 20;

/// Prints the completions and ends the program, if a shell has started it for completion.
pub(crate) fn answer() {
    CompleteEnv::with_factory(grammar).var(VARIABLE).complete();
}

/// Returns the script that makes a shell call this program.
pub(crate) fn script(shell: Shell) -> Result<String, Error> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name);
    let completer = completer.ok_or_else(|| usage(format!("no completions exist for {name}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(|error| usage(format!("the completions cannot be made: {error}")))?;
    let script = String::from_utf8_lossy(&script);
    let script = script.trim();
    if shell == Shell::Bash {
        // a place is one word
        return Ok(format!(
            "COMP_WORDBREAKS=${{COMP_WORDBREAKS//[:@]/}}\n{script}"
        ));
    }
    if shell == Shell::Zsh {
        // zsh calls a file of its search path as the function itself
        let call =
            format!("[[ $funcstack[1] != _{PROGRAM} ]] || _clap_dynamic_completer_{PROGRAM}");
        return Ok(format!("{script}\n{call}"));
    }
    Ok(script.to_owned())
}

/// Returns the grammar, in which places complete to paths.
fn grammar() -> clap::Command {
    let command = help::command();
    let names: Vec<String> = command
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| command.mut_args(with_places))
    })
}

fn with_places(arg: Arg) -> Arg {
    // a path of this host alone is a `PathBuf`
    let is_text = arg.get_value_parser().type_id() == TypeId::of::<String>();
    let is_place = is_text && arg.get_value_hint() == ValueHint::AnyPath;
    if is_place {
        arg.add(ArgValueCompleter::new(places))
    } else {
        arg
    }
}

/// Returns the places that begin with `begun`.
fn places(begun: &OsStr) -> Vec<CompletionCandidate> {
    let place = begun.to_str().map(|text| (text, Place::parse(text)));
    let mut found = match place {
        Some((text, Ok(Place::Ssh { .. } | Place::Daemon { .. }))) => remote(text),
        _ => PathCompleter::any().complete(begun),
    };
    found.retain(|candidate| is_plain(candidate.get_value()));
    found
}

/// Returns true if a name stays one word. Bash takes completions as they are, so that others could run commands.
fn is_plain(name: &OsStr) -> bool {
    let is_plain = |char: char| char.is_alphanumeric() || "/._-+,=@%:[]".contains(char);
    name.to_str().is_some_and(|name| name.chars().all(is_plain))
}

/// Returns the places on another host that begin with `begun`.
fn remote(begun: &str) -> Vec<CompletionCandidate> {
    let end = begun.rfind(['/', ':']).map_or(0, |at| at + 1);
    let (folder, begun) = begun.split_at(end);
    let names = names(folder, begun.starts_with('.'));
    let names = names.iter().filter(|name| name.starts_with(begun));
    let place = |name| CompletionCandidate::new(format!("{folder}{name}"));
    names.map(place).collect()
}

/// Returns the names in a directory on another host, with a slash after each directory.
fn names(folder: &str, hidden: bool) -> Vec<String> {
    let Some(mut child) = list(folder, hidden) else {
        return Vec::new();
    };
    let Some(output) = child.stdout.take() else {
        return Vec::new();
    };
    let (tell, told) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(output.take(ANSWER_MAX)).lines();
        let names = lines.map_while(Result::ok);
        let names: Vec<String> = names.filter_map(|line| name(&line)).collect();
        // after the wait, the names are not used
        tell.send(names).ok();
    });
    let names = told.recv_timeout(PATIENCE).unwrap_or_default();
    child.kill().ok();
    child.wait().ok();
    names
}

/// Starts `lighthaul ls` for a directory on another host.
fn list(folder: &str, hidden: bool) -> Option<Child> {
    let ssh = env::var("LIGHTHAUL_SSH").unwrap_or_else(|_| "ssh".to_owned());
    let mut list = Command::new(env::current_exe().ok()?);
    list.env_remove(VARIABLE)
        .env("LIGHTHAUL_SSH", format!("{ssh} -oBatchMode=yes"))
        .args(["ls", "--json"])
        .args(hidden.then_some("--all"))
        .args(["--", folder])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    list.spawn().ok()
}

/// Returns the name in a line of `lighthaul ls --json`.
fn name(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    let name = event.get("path")?.as_str()?;
    let is_folder = event.get("kind")? == "directory";
    Some(format!("{name}{}", if is_folder { "/" } else { "" }))
}

/// Name of the program by which shells call it.
const PROGRAM: &str = "lighthaul";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_would_split_are_not_completed() {
        for name in ["run1.h5", "far:data/ü", "lh://[::1]:7000/a-b_c+d,e=f@g%h/"] {
            assert!(is_plain(OsStr::new(name)), "{name}");
        }
        for name in [
            "a b",
            "$(reboot)",
            "a;b",
            "`b`",
            "a\u{b}b",
            "a\nb",
            "a'b",
            "a\"b",
            "a\\b",
            "a&b",
            "a|b",
            "~x",
            "*",
            "?",
            "!",
            "#",
            "{a}",
            "<",
            "(",
            "\u{1b}[2J",
        ] {
            assert!(!is_plain(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn every_path_argument_of_the_grammar_is_completed() {
        let grammar = grammar();
        for (command, count) in [
            ("cp", 1),
            ("ls", 1),
            ("du", 1),
            ("stat", 1),
            ("rm", 1),
            ("mkdir", 1),
            ("verify", 1),
            ("manifest", 1),
            ("stream", 2),
        ] {
            let command = grammar.find_subcommand(command).unwrap();
            let places = command
                .get_arguments()
                .filter(|arg| arg.get::<ArgValueCompleter>().is_some());
            assert_eq!(places.count(), count, "{}", command.get_name());
        }
    }
}
