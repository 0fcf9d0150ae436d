//! Filter options. The first rule that matches decides, so their order on the command line counts, across all of
//! them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use lighthaul_files::filter::FilterOption;

/// Filter rules in the order of the command line.
#[derive(Clone, Debug, Default)]
pub struct Rules(pub Vec<FilterOption>);

/// Name, value name, help and meaning of an option.
type Option_ = (
    &'static str,
    &'static str,
    &'static str,
    fn(OsString) -> FilterOption,
);

const OPTIONS: [Option_; 5] = [
    (
        "exclude",
        "PATTERN",
        "Exclude files that match, with the rules of rsync",
        |text| FilterOption::Exclude(text.into_vec()),
    ),
    (
        "include",
        "PATTERN",
        "Include files that match, even if a later rule excludes them",
        |text| FilterOption::Include(text.into_vec()),
    ),
    (
        "filter",
        "RULE",
        "Add a filter rule of rsync: - + . and H, S, P, R, as in 'P *.log'",
        |text| FilterOption::Filter(text.into_vec()),
    ),
    (
        "exclude-from",
        "FILE",
        "Exclude files that match a pattern in FILE",
        |text| FilterOption::ExcludeFrom(PathBuf::from(text)),
    ),
    (
        "include-from",
        "FILE",
        "Include files that match a pattern in FILE",
        |text| FilterOption::IncludeFrom(PathBuf::from(text)),
    ),
];

/// Options that `-h` shows.
const SHORT: [&str; 1] = ["exclude"];

impl Args for Rules {
    fn augment_args(command: Command) -> Command {
        OPTIONS
            .iter()
            .fold(command, |command, (name, value, help, _)| {
                let short = (*name == "filter").then_some('f');
                let arg = Arg::new(*name)
                    .long(*name)
                    .short(short)
                    .value_name(*value)
                    .help(*help)
                    .help_heading("Selection")
                    .hide_short_help(!SHORT.contains(name))
                    .action(ArgAction::Append)
                    .allow_hyphen_values(true)
                    .value_parser(value_parser!(OsString));
                command.arg(arg)
            })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut found = Vec::new();
        for (name, _, _, means) in OPTIONS {
            let indices = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<OsString>(name).into_iter().flatten();
            found.extend(
                indices
                    .zip(values)
                    .map(|(index, text)| (index, means(text.clone()))),
            );
        }
        found.sort_by_key(|(index, _)| *index);
        Ok(Self(found.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
