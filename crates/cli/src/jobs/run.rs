//! Submission, lists and changes of jobs.

use std::env;

use clap::FromArgMatches;
use lighthaul_grammar::cli::{Cli, Command};
use lighthaul_grammar::help;
use lighthaul_grammar::jobs::{ChangeJobs, Jobs, JobsAction, State, Submit};
use lighthaul_grammar::time::Time;
use lighthaul_queue::list::Selection;
use lighthaul_queue::worker::now;
use lighthaul_queue::{JobId, JobSpec, JobState, Queue};
use lighthaul_session::error::Error;

use super::queue_file::{existing, failed, file};
use super::{follow, show, work};
use crate::error::{Fault, usage};

/// Lists jobs, or runs an action, and returns the exit status.
pub(crate) fn run(args: &Jobs) -> Result<u8, Error> {
    match &args.action {
        None => list(args).map(|()| 0),
        Some(JobsAction::Submit(submit)) => self::submit(submit).map(|()| 0),
        Some(JobsAction::Show(args)) => {
            let mut queue = existing(&args.queue)?;
            for id in &args.ids {
                show::full(&mut queue, JobId(*id), args.output)?;
            }
            Ok(0)
        }
        Some(JobsAction::Watch(args)) => follow::watch(args),
        Some(JobsAction::Logs(args)) => follow::logs(args).map(|()| 0),
        Some(JobsAction::Retry(args)) => {
            change(args, |queue, id| queue.retry(now(), id)).map(|()| 0)
        }
        Some(JobsAction::Cancel(args)) => {
            change(args, |queue, id| queue.cancel(now(), id).map(drop)).map(|()| 0)
        }
        Some(JobsAction::Work(args)) => work::run(args).map(|()| 0),
    }
}

fn submit(args: &Submit) -> Result<(), Error> {
    check(&args.command)?;
    let millis = |Time(at): Time| at.0 / 1_000_000;
    let spec = JobSpec {
        owner: owner(),
        name: args.name.clone(),
        command: args.command.clone(),
        directory: env::current_dir().map_err(Fault::Directory)?,
        priority: args.priority,
        after: args.after.iter().copied().map(JobId).collect(),
        not_before: args.at.map_or(0, millis),
        start_by: args.start_by.map(millis),
        every: args
            .every
            .map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX)),
        retries: args.retries,
    };
    let mut queue = Queue::open(&file(&args.queue)).map_err(failed)?;
    let ids = queue.submit(now(), &[spec]).map_err(failed)?;
    for id in ids {
        show::submitted(&mut queue, id, args.output)?;
    }
    Ok(())
}

/// Refuses a command that a worker could not run.
fn check(command: &[String]) -> Result<(), Error> {
    if command.first().is_none_or(|word| word != "cp") {
        return Err(usage(
            "a job is a copy: write `lighthaul jobs submit [OPTIONS] cp SOURCE... TARGET`",
        ));
    }
    let words = ["lighthaul"]
        .into_iter()
        .chain(command.iter().map(String::as_str));
    let parsed = help::command().try_get_matches_from(words);
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let wrong = |text: &str| usage(format!("the command of the job is wrong: {text}"));
    let cli = parsed.map_err(|error| {
        let text = error.to_string();
        wrong(text.trim().trim_start_matches("error: "))
    })?;
    let Some(Command::Cp(args)) = cli.command else {
        return Ok(());
    };
    let choice = &args.choice;
    if choice.delete && !choice.yes && choice.dry_run.is_none() {
        return Err(wrong("--delete asks before it removes files: add --yes"));
    }
    Ok(())
}

fn list(args: &Jobs) -> Result<(), Error> {
    let mut queue = existing(&args.queue)?;
    let mut states: Vec<JobState> = args.state.iter().copied().map(state).collect();
    if states.is_empty() && !args.all {
        states.extend(JobState::ALL.into_iter().filter(|state| !state.is_end()));
    }
    let selection = Selection {
        states,
        owner: None,
    };
    let jobs = queue.jobs(&selection, None, args.limit).map_err(failed)?;
    let counts = queue.counts().map_err(failed)?;
    show::list(&jobs, &counts, args.output);
    Ok(())
}

/// Changes each job, and continues after one that cannot be changed.
fn change(
    args: &ChangeJobs,
    act: impl Fn(&mut Queue, JobId) -> lighthaul_queue::Result<()>,
) -> Result<(), Error> {
    let mut queue = existing(&args.queue)?;
    let mut faults = Vec::new();
    for id in args.ids.iter().copied().map(JobId) {
        match act(&mut queue, id) {
            Ok(()) => show::line(&queue.job(id).map_err(failed)?, args.output),
            Err(fault) => faults.push(fault),
        }
    }
    match faults.len() {
        0 => Ok(()),
        1 => Err(failed(faults.remove(0))),
        count => {
            let whys: Vec<String> = faults.iter().map(ToString::to_string).collect();
            Err(Fault::Jobs {
                failed: count,
                all: args.ids.len(),
                whys: whys.join("; "),
            }
            .into())
        }
    }
}

/// Returns the name of the user, or the number.
fn owner() -> String {
    let name = env::var("USER").ok().filter(|name| !name.is_empty());
    name.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string())
}

const fn state(state: State) -> JobState {
    match state {
        State::Waiting => JobState::Waiting,
        State::Queued => JobState::Queued,
        State::Running => JobState::Running,
        State::Done => JobState::Done,
        State::Failed => JobState::Failed,
        State::Canceled => JobState::Canceled,
    }
}
