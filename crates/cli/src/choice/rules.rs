//! Options that filter. The first rule that matches decides, so their order on the command line counts,
//! across all of them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use lighthaul_files::filter::Written;

/// The rules, in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(pub(crate) Vec<Written>);

/// An option's name, what it takes, its help, and what it means.
type Option_ = (
    &'static str,
    &'static str,
    &'static str,
    fn(OsString) -> Written,
);

const OPTIONS: [Option_; 5] = [
    (
        "exclude",
        "PATTERN",
        "Leave out what matches, as rsync has it",
        |text| Written::Exclude(text.into_vec()),
    ),
    (
        "include",
        "PATTERN",
        "Take what matches, whatever later rules say",
        |text| Written::Include(text.into_vec()),
    ),
    (
        "filter",
        "RULE",
        "Add a rule as rsync writes it: '- PATTERN', '+ PATTERN', '. FILE'",
        |text| Written::Filter(text.into_vec()),
    ),
    (
        "exclude-from",
        "FILE",
        "Leave out what matches a pattern in FILE",
        |text| Written::ExcludeFrom(PathBuf::from(text)),
    ),
    (
        "include-from",
        "FILE",
        "Take what matches a pattern in FILE",
        |text| Written::IncludeFrom(PathBuf::from(text)),
    ),
];

impl Args for Rules {
    fn augment_args(command: Command) -> Command {
        OPTIONS
            .iter()
            .fold(command, |command, (name, value, help, _)| {
                let arg = Arg::new(*name)
                    .long(*name)
                    .value_name(*value)
                    .help(*help)
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
