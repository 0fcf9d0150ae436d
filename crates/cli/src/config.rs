//! Defaults of options from files: `config.toml` of the host and of the user.
//!
//! A key is the name of an option, in a section with the name of a command. The files become defaults of the grammar,
//! so that options and then `LIGHTHAUL_*` override them. Values are checked in one place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::builder::FalseyValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use lighthaul_base::config_fault::fault_in;
use lighthaul_remote::paths;
use lighthaul_session::error::{Error, FileAction};
use toml::{Table, Value};

use crate::error::usage;
use crate::output::print::print;

/// Commands for which every option has an environment variable. An option of another command may have the same name and
/// another meaning.
const WITH_VARIABLES: [&str; 11] = [
    "cp",
    "serve",
    "gateway",
    "probe",
    "stream",
    "scheduler",
    "book",
    "quote",
    "reservations",
    "cancel",
    "calendar",
];
/// Commands that grant rights, which each call must name.
const GRANTING: [&str; 6] = ["key", "allow", "deny", "trust", "token", "sign"];
/// Options that belong to one call.
const NOT_KEPT: [&str; 13] = [
    "help",
    "host",
    "once",
    "recursive",
    "no-target-directory",
    "remove-source-files",
    "tentative",
    "commit",
    "start",
    "by",
    "from",
    "plot",
    "why",
];

/// Settings of both files.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// Values, with the files that set them, by section and key.
    settings: BTreeMap<(String, String), Setting>,
}

#[derive(Clone, Debug)]
struct Setting {
    values: Vec<String>,
    file: PathBuf,
}

impl Config {
    /// Reads the host's file, then the user's file, which overrides the host's. Checks that `command` has the keys.
    pub(crate) fn load(command: &Command) -> Result<Self, Error> {
        let mut config = Self::default();
        for path in paths::configs() {
            match fs::read_to_string(&path) {
                Ok(text) => config.add(&path, &text, command)?,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Error::file(FileAction::Open, &path, &error)),
            }
        }
        Ok(config)
    }

    fn add(&mut self, path: &Path, text: &str, command: &Command) -> Result<(), Error> {
        let wrong = |what: String| usage(format!("{}: {what}", path.display()));
        let table: Table =
            toml::from_str(text).map_err(|why| wrong(fault_in(text, why.span(), why.message())))?;
        for (section, keys) in table {
            let known = sections(command).find(|sub| sub.get_name() == section);
            let (Some(sub), Value::Table(keys)) = (known, keys) else {
                let known: Vec<&str> = sections(command).map(Command::get_name).collect();
                let text = format!(
                    "unknown section {section}; the sections are {}",
                    known.join(", ")
                );
                return Err(wrong(text));
            };
            for (key, value) in keys {
                let mut known: Vec<&str> = kept(sub).map(|(key, _)| key).collect();
                known.sort_unstable();
                if !known.contains(&key.as_str()) {
                    let text = format!(
                        "[{section}] has no key {key}; its keys are {}",
                        known.join(", ")
                    );
                    return Err(wrong(text));
                }
                let values = words(value).ok_or_else(|| {
                    wrong(format!(
                        "[{section}] {key} must be a string, a number, a boolean or a list of them"
                    ))
                })?;
                let file = path.to_owned();
                self.settings
                    .insert((section.clone(), key), Setting { values, file });
            }
        }
        Ok(())
    }

    /// Returns the grammar with the values of the files as defaults. `serve --once`, which ssh starts, takes only the
    /// ports that this host's firewall lets pass.
    pub(crate) fn apply(&self, mut command: Command) -> Command {
        let once = env::args_os().any(|word| word == "--once");
        let sections = sections(&command).map(|sub| sub.get_name().to_owned());
        // the command is changed below
        let sections: Vec<String> = sections.collect();
        for section in sections {
            let has_variables = WITH_VARIABLES.contains(&section.as_str());
            command = command.mut_subcommand(&section, |sub| {
                sub.mut_args(|arg| {
                    let Some(key) = name(&section, &arg).map(str::to_owned) else {
                        return arg;
                    };
                    let arg = reachable(arg, &key, has_variables);
                    let is_for_once = key == "port-range";
                    match self.settings.get(&(section.clone(), key)) {
                        Some(setting) if !once || is_for_once => {
                            arg.default_values(setting.values.clone())
                        }
                        _ => arg,
                    }
                })
            });
        }
        command
    }

    /// Returns the file that an invalid value comes from.
    pub(crate) fn blame(&self, error: &clap::Error) -> Option<&Path> {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let arg = context(ContextKind::InvalidArg)?;
        let value = context(ContextKind::InvalidValue)?;
        let flag = arg.strip_prefix("--")?.split([' ', '=', '[']).next()?;
        let mut settings = self.settings.iter();
        let guilty = settings.find(|((_, key), setting)| {
            key == flag && setting.values.iter().any(|word| word == value)
        });
        guilty.map(|(_, setting)| setting.file.as_path())
    }

    /// Prints the settings in force with their sources; with `all` also the other options with their defaults.
    pub(crate) fn show(&self, command: &Command, all: bool) {
        for path in paths::configs() {
            let there = if path.exists() { "" } else { " (missing)" };
            print(&format!("# {}{there}", path.display()));
        }
        let lines = self.lines(command, all);
        if lines.is_empty() {
            print("\n# nothing is set; `lighthaul config --all` prints all options");
        }
        for line in lines {
            print(&line);
        }
    }

    /// Returns the sections and their settings.
    fn lines(&self, command: &Command, all: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for sub in sections(command) {
            let section = sub.get_name();
            let settings = kept(sub).map(|(key, arg)| self.line(section, key, arg));
            let settings = settings.filter(|(_, is_set)| all || *is_set);
            let settings: Vec<String> = settings.map(|(line, _)| line).collect();
            if !settings.is_empty() {
                lines.push(format!("\n[{section}]"));
                lines.extend(settings);
            }
        }
        lines
    }

    /// Returns the line of an option, and true if a file or a variable sets it.
    fn line(&self, section: &str, key: &str, arg: &Arg) -> (String, bool) {
        let variable = arg.get_env().map(OsString::from);
        let set = variable.and_then(|name| Some((env::var(&name).ok()?, name)));
        let defaults = arg.get_default_values().iter();
        let defaults: Vec<_> = defaults.map(|v| v.to_string_lossy().into_owned()).collect();
        let setting = self.settings.get(&(section.to_owned(), key.to_owned()));
        let is_set = set.is_some() || setting.is_some();
        let (values, from) = match (set, setting) {
            (Some((value, name)), _) => (vec![value], name.display().to_string()),
            (None, Some(setting)) => (setting.values.clone(), setting.file.display().to_string()),
            (None, None) if defaults.is_empty() => {
                return (format!("# {key} is not set"), false);
            }
            (None, None) => (defaults, "default".to_owned()),
        };
        if arg.is_hide_env_values_set() && values.iter().any(|value| value.contains('@')) {
            let line = format!("# {key} is set, with a password that is not shown here  # {from}");
            return (line, is_set);
        }
        let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
        let value = match values.as_slice() {
            [word] if is_flag => {
                Value::Boolean(!["", "0", "n", "no", "f", "false", "off"].contains(&word.as_str()))
            }
            [word] => Value::String(word.clone()),
            words => Value::Array(words.iter().cloned().map(Value::String).collect()),
        };
        (format!("{key} = {value}  # {from}"), is_set)
    }
}

/// Returns the commands whose options can be set in files.
fn sections(command: &Command) -> impl Iterator<Item = &Command> {
    let is_section = |sub: &&Command| sub.get_name() != "config" && !sub.is_hide_set();
    let subs = command.get_subcommands().filter(is_section);
    subs.filter(|sub| kept(sub).next().is_some())
}

/// Returns the options of a command that can be set in files, with their keys.
fn kept(sub: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let section = sub.get_name();
    let args = sub.get_arguments();
    args.filter_map(move |arg| Some((name(section, arg)?, arg)))
}

/// Returns the key of an option that files may set.
fn name<'a>(section: &str, arg: &'a Arg) -> Option<&'a str> {
    let is_right = GRANTING.contains(&section) && arg.get_help_heading() == Some("Access");
    let key = arg.get_long().filter(|name| !NOT_KEPT.contains(name));
    key.filter(|_| !is_right)
}

/// Returns the option with its environment variable; a flag is set with `1`, as in `LIGHTHAUL_PLAIN=1`.
fn reachable(mut arg: Arg, key: &str, has_variable: bool) -> Arg {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        arg = arg.value_parser(FalseyValueParser::new());
    }
    if arg.get_env().is_none() && has_variable {
        // the name follows from the option, so help need not show it
        arg = arg.env(variable(key)).hide_env(true);
    }
    arg
}

/// Returns the name of the variable for `key`.
fn variable(key: &str) -> String {
    format!("LIGHTHAUL_{}", key.to_uppercase().replace('-', "_"))
}

/// Returns the words of a value as on the command line.
fn words(value: Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Integer(number) => Some(vec![number.to_string()]),
        Value::Float(number) => Some(vec![number.to_string()]),
        Value::Boolean(truth) => Some(vec![truth.to_string()]),
        Value::Array(values) => {
            let words: Option<Vec<_>> = values.into_iter().map(words).collect();
            words.map(|words| words.concat())
        }
        Value::Datetime(_) | Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use lighthaul_session::error::Code;

    use super::*;
    use lighthaul_grammar::cli::{self, Cli};
    use lighthaul_grammar::help;

    fn read(texts: &[&str]) -> Result<Config, Error> {
        let mut config = Config::default();
        for (nth, text) in texts.iter().enumerate() {
            config.add(Path::new(&format!("{nth}.toml")), text, &help::command())?;
        }
        Ok(config)
    }

    fn parse(config: &Config, line: &str) -> Result<cli::Command, clap::Error> {
        let command = config.apply(help::command());
        let words = line.split_whitespace();
        let cli = Cli::from_arg_matches(&command.try_get_matches_from(words)?)?;
        Ok(cli.command.unwrap())
    }

    #[test]
    fn user_settings_override_host_settings_and_options_override_both() {
        let host = "[cp]\nrate = \"1Gb/s\"\nno-sync = true\n[serve]\nroot = \"/data\"";
        let config = read(&[
            host,
            "[cp]\nrate = \"2Gb/s\"\n[probe]\ntime = \"7s\"\nwhat = [\"copy\", \"fake\"]",
        ])
        .unwrap();
        let cli::Command::Cp(cp) = parse(&config, "lighthaul cp a b:").unwrap() else {
            panic!("it is another command");
        };
        assert_eq!(
            (cp.rate.unwrap().as_bps(), cp.no_sync),
            (2_000_000_000, true)
        );
        let cli::Command::Cp(cp) = parse(&config, "lighthaul cp --rate 3Gb/s a b:").unwrap() else {
            panic!("it is another command");
        };
        assert_eq!(cp.rate.unwrap().as_bps(), 3_000_000_000);
        let cli::Command::Probe(probe) = parse(&config, "lighthaul probe h").unwrap() else {
            panic!("it is another command");
        };
        assert_eq!((probe.time.as_secs(), probe.what.len()), (7, 2));
    }

    #[test]
    fn commands_about_files_have_sections() {
        let config = read(&[
            "[ls]\nlong = true\nkey = \"/k\"\n[du]\nmax-depth = 2\n[rm]\nstrict = true\n[verify]\nhash = \"md5\"",
        ])
        .unwrap();
        let cli::Command::Ls(ls) = parse(&config, "lighthaul ls far:").unwrap() else {
            panic!("it is another command");
        };
        assert!(ls.long && !ls.all && ls.via.far.key.path.is_some());
        let cli::Command::Du(du) = parse(&config, "lighthaul du far:").unwrap() else {
            panic!("it is another command");
        };
        assert_eq!(du.max_depth, 2);
        let cli::Command::Rm(rm) = parse(&config, "lighthaul rm far:x").unwrap() else {
            panic!("it is another command");
        };
        assert!(rm.at.via.far.strict && !rm.recursive);
    }

    #[test]
    fn only_set_options_are_printed_without_the_option_all() {
        let config = read(&["[cp]\nplain = true\n[ls]\nlong = true"]).unwrap();
        let command = config.apply(help::command());
        assert_eq!(
            config.lines(&command, false),
            [
                "\n[cp]",
                "plain = true  # 0.toml",
                "\n[ls]",
                "long = true  # 0.toml"
            ]
        );
        let all = config.lines(&command, true);
        for line in [
            "\n[du]",
            "# rate is not set",
            "max-depth = \"0\"  # default",
        ] {
            assert!(
                all.iter().any(|printed| printed == line),
                "{line}: {all:#?}"
            );
        }
        let none = Config::default();
        assert!(none.lines(&none.apply(help::command()), false).is_empty());
    }

    #[test]
    fn malformed_setting_is_reported_with_its_file() {
        for (text, words) in [
            (
                "[cp]\nrtae = 1",
                "0.toml: [cp] has no key rtae; its keys are ",
            ),
            (
                "[ls]\nlnog = 1",
                "[ls] has no key lnog; its keys are all, gateway, ",
            ),
            ("[rm]\nrecursive = true", "[rm] has no key recursive"),
            ("[allow]\nspecial = true", "[allow] has no key special"),
            ("[trust]\nreplace = true", "unknown section trust"),
            (
                "[key]\nhost = true",
                "[key] has no key host; its keys are key",
            ),
            ("[config]\nall = true", "unknown section config"),
            (
                "[lsx]\nlong = true",
                "unknown section lsx; the sections are cp, jobs, stream, ls, du, stat, ",
            ),
            ("[cp]\nhelp = true", "has no key help"),
            ("[serve]\nonce = true", "has no key once"),
            ("[lab]\nrate = 1", "unknown section lab"),
            ("rate = 1", "unknown section rate"),
            ("[cp]\nrate = { a = 1 }", "[cp] rate must be a string"),
            ("[cp", "0.toml: line 1, column 4: "),
        ] {
            let error = read(&[text]).unwrap_err();
            assert!(error.text().contains(words), "{text}: {error}");
            assert_eq!(error.code(), Code::Usage);
        }
        let config = read(&["[cp]\nrate = \"fast\""]).unwrap();
        let error = parse(&config, "lighthaul cp a b:").unwrap_err();
        assert_eq!(config.blame(&error), Some(Path::new("0.toml")));
        let error = parse(&config, "lighthaul cp --rate slow a b:").unwrap_err();
        assert_eq!(config.blame(&error), None);
    }

    #[test]
    fn every_duration_option_takes_the_same_notation() {
        for line in [
            "cp a lh://b/c --stall-timeout",
            "stream lh://b/c - --linger",
            "stream lh://b/c - --deadline",
            "stream lh://b/c - --delay",
            "gateway --listen [::]:1 --age",
            "gateway --listen [::]:1 --patience",
            "gateway --listen [::]:1 --keepalive",
            "probe h --time",
            "scheduler --topology t --hold",
            "scheduler --topology t --horizon",
            "book a b --hold",
            "calendar --for",
            "allow k --expires",
            "token n --expires",
            "sign k n --expires",
        ] {
            for time in ["90s", "2m", "1h30m", "PT2M", "1.5h", "7d"] {
                let parsed = parse(&Config::default(), &format!("lighthaul {line} {time}"));
                assert!(parsed.is_ok(), "{line} {time}: {parsed:?}");
            }
            for (time, says) in [
                ("30", "needs a unit, as in"),
                ("soon", "a number and a unit, as in"),
            ] {
                let error = parse(&Config::default(), &format!("lighthaul {line} {time}"));
                let error = error.unwrap_err().to_string();
                assert!(error.contains(says), "{line} {time}: {error}");
            }
        }
    }

    #[test]
    fn rates_and_sizes_without_a_unit_are_refused() {
        for line in [
            "cp a lh://b/c --limit 10",
            "cp a lh://b/c --rate 10",
            "cp a lh://b/c --book --book-size 10",
            "stream lh://b/c --rate 10",
            "stream lh://b/c --object-size 10",
            "serve --root / --max-memory 10",
            "gateway --rate 10",
            "gateway --memory 10",
            "gateway --slab 10",
            "probe h --rate 10",
            "probe h --size 10",
            "doctor h --rate 10",
            "scheduler --topology t --link-capacity 10",
            "scheduler --topology t --bytes-max 10",
            "scheduler --topology t --shape eth1=10",
            "book a b --size 10",
            "book a b --size 1GB --rate-max 10",
            "quote a b --size 1GB --rate-min 10",
        ] {
            let error = parse(&Config::default(), &format!("lighthaul {line}"));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("unit"), "{line}: {error}");
        }
        for table in ["08:00,10 18:00,off", "1.5/s"] {
            let words = ["lighthaul", "cp", "a", "lh://b/c", "--limit", table];
            let error = help::command().try_get_matches_from(words).unwrap_err();
            assert!(error.to_string().contains("with a unit"), "{error}");
        }
    }

    #[test]
    fn grammar_is_consistent_and_every_key_has_a_variable() {
        let config = read(&["[cp]\nplain = true"]).unwrap();
        let command = config.apply(help::command());
        command.clone().debug_assert();
        let cp = command.find_subcommand("cp").unwrap();
        assert!(kept(cp).all(|(_, arg)| arg.get_env().is_some()));
        // a variable of cp must not change other commands
        let rm = command.find_subcommand("rm").unwrap();
        assert!(kept(rm).all(|(_, arg)| arg.get_id() != "json" || arg.get_env().is_none()));
        let line = |key: &str| {
            let (_, arg) = kept(cp).find(|(name, _)| *name == key).unwrap();
            config.line("cp", key, arg).0
        };
        assert_eq!(line("plain"), "plain = true  # 0.toml");
        assert_eq!(line("verify"), "verify = \"transfer\"  # default");
        assert_eq!(line("rate"), "# rate is not set");
    }
}
