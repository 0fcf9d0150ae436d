//! Request for a job at a scheduler, from the command of a copy.
//!
//! A worker elsewhere runs the job, so a request has places and a few options, but no command line.

use std::sync::LazyLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use lighthaul_booking_client::json::{CopyOptions, IsoDuration, NewJob, Timestamp};
use lighthaul_files::filter::FilterOption;
use lighthaul_grammar::copy::Cp;
use lighthaul_grammar::jobs::Submit;
use lighthaul_grammar::time::Time;
use lighthaul_session::error::Error;

use crate::error::usage;

/// Returns the request for a copy. `matches` are the options that `copy` was read from.
pub(super) fn request(args: &Submit, copy: &Cp, matches: &ArgMatches) -> Result<NewJob, Error> {
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let other = matches.ids().map(clap::Id::as_str);
    // groups of options have sources, too
    let is_group = |id: &str| GROUPS.iter().any(|group| group == id);
    let other = other.filter(|id| !is_group(id) && given(id));
    if let Some(id) = { other }.find(|id| !KNOWN.contains(id)) {
        let option = id.replace('_', "-");
        return Err(usage(format!(
            "a job of a scheduler cannot have --{option}: only --delete --yes, --update, --checksum, --archive, \
             --exclude, --rate and --book --by"
        )));
    }
    let (target, sources) = copy.paths.split_last().unwrap_or((&EMPTY, &[]));
    let time = |Time(at): Time| Timestamp(at.0);
    Ok(NewJob {
        sources: sources.to_vec(),
        target: target.clone(),
        options: CopyOptions {
            delete: copy.choice.delete,
            update: copy.choice.update,
            checksum: copy.choice.checksum,
            archive: copy.choice.archive,
            exclude: excluded(copy)?,
            rate: copy.rate.map(Into::into),
            // the variable that sets it holds for copies of this host
            book: given("book") || copy.later.deadline.is_some(),
            by: copy.later.deadline.map(time),
        },
        name: args.name.clone(),
        priority: args.priority,
        after: args.after.clone(),
        at: args.at.map(time),
        start_by: args.start_by.map(time),
        every: args.every.map(IsoDuration),
        retries: Some(args.retries),
    })
}

fn excluded(copy: &Cp) -> Result<Vec<String>, Error> {
    let pattern = |rule: &FilterOption| match rule {
        FilterOption::Exclude(octets) => String::from_utf8(octets.clone()).ok(),
        FilterOption::Include(_)
        | FilterOption::Filter(_)
        | FilterOption::ExcludeFrom(_)
        | FilterOption::IncludeFrom(_) => None,
    };
    let patterns: Option<Vec<String>> = copy.choice.rules.0.iter().map(pattern).collect();
    patterns.ok_or_else(|| {
        usage("a job of a scheduler has only --exclude as a filter, with a pattern in UTF-8")
    })
}

/// Options that a request has.
const KNOWN: [&str; 10] = [
    "paths", "delete", "yes", "update", "checksum", "archive", "exclude", "rate", "book",
    "deadline",
];
static EMPTY: String = String::new();
/// Groups of the options of a copy.
static GROUPS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let options = Cp::augment_args(clap::Command::new("cp"));
    let groups = options.get_groups();
    groups.map(|group| group.get_id().to_string()).collect()
});
