//! Submission, lists and changes of jobs.

use std::env;

use clap::{ArgMatches, FromArgMatches};
use lighthaul_grammar::cli::{Cli, Command};
use lighthaul_grammar::copy::Cp;
use lighthaul_grammar::help;
use lighthaul_grammar::jobs::{ChangeJobs, Jobs, JobsAction, State, Submit};
use lighthaul_grammar::time::Time;
use lighthaul_io::crypto::identity;
use lighthaul_queue::{JobId, JobSpec, JobState, Queue, Request};
use lighthaul_remote::scheduler::{failed as refused, reach};
use lighthaul_session::error::Error;

use super::desk::{self, Desk, failed, owner, patiently, place, scheduler};
use super::request::request;
use super::{follow, share, show, work};
use crate::error::{Fault, usage};

/// Lists jobs, or runs an action, and returns the exit status.
pub(crate) fn run(args: &Jobs) -> Result<u8, Error> {
    match &args.action {
        None => list(args).map(|()| 0),
        Some(JobsAction::Submit(submit)) => self::submit(submit).map(|()| 0),
        Some(JobsAction::Show(args)) => {
            let mut desk = Desk::existing(&args.queue)?;
            for id in &args.ids {
                show::full(&mut desk, *id, args.output)?;
            }
            Ok(0)
        }
        Some(JobsAction::Watch(args)) => follow::watch(args),
        Some(JobsAction::Logs(args)) => follow::logs(args).map(|()| 0),
        Some(JobsAction::Retry(args)) => change(args, Desk::retry).map(|()| 0),
        Some(JobsAction::Cancel(args)) => change(args, Desk::cancel).map(|()| 0),
        Some(JobsAction::Share(args)) => share::run(args).map(|()| 0),
        Some(JobsAction::Work(args)) => work::run(args).map(|()| 0),
    }
}

fn submit(args: &Submit) -> Result<(), Error> {
    let (matches, copy) = read(&args.command)?;
    if let Some(scheduler) = scheduler(&args.queue) {
        let words = matches.subcommand_matches("cp").unwrap_or(&matches);
        let request = request(args, &copy, words)?;
        let job = reach(&scheduler)?.submit_job(&request).map_err(refused)?;
        show::submitted(&desk::job(job), args.output);
        return Ok(());
    }
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
    let mut queue = Queue::open(&place(&args.queue.store)).map_err(failed)?;
    // a repetition after a lost answer finds the job of the first try
    let request = Request {
        key: Some(identity::token()),
        digest: String::new(),
        open_max: u64::MAX,
    };
    let job = patiently(|| {
        let now = queue.now()?;
        let id = queue.request(now, &spec, &request)?;
        queue.job(id)
    })?;
    show::submitted(&job, args.output);
    Ok(())
}

/// Reads the command of a job. Refuses one that a worker could not run.
fn read(command: &[String]) -> Result<(ArgMatches, Cp), Error> {
    let not_a_copy =
        || usage("a job is a copy: write `lighthaul jobs submit [OPTIONS] cp SOURCE... TARGET`");
    if command.first().is_none_or(|word| word != "cp") {
        return Err(not_a_copy());
    }
    let words = ["lighthaul"]
        .into_iter()
        .chain(command.iter().map(String::as_str));
    let wrong = |text: &str| usage(format!("the command of the job is wrong: {text}"));
    let faulty = |error: clap::Error| {
        let text = error.to_string();
        wrong(text.trim().trim_start_matches("error: "))
    };
    let matches = help::command()
        .try_get_matches_from(words)
        .map_err(faulty)?;
    let cli = Cli::from_arg_matches(&matches).map_err(faulty)?;
    let Some(Command::Cp(args)) = cli.command else {
        return Err(not_a_copy());
    };
    let choice = &args.choice;
    if choice.delete && !choice.yes && choice.dry_run.is_none() {
        return Err(wrong("--delete asks before it removes files: add --yes"));
    }
    Ok((matches, args))
}

fn list(args: &Jobs) -> Result<(), Error> {
    let mut desk = Desk::existing(&args.queue)?;
    let mut states: Vec<JobState> = args.state.iter().copied().map(state).collect();
    if states.is_empty() && !args.all {
        states.extend(JobState::ALL.into_iter().filter(|state| !state.is_end()));
    }
    let (jobs, counts) = desk.jobs(&states, args.limit)?;
    show::list(&jobs, &counts, args.output);
    Ok(())
}

/// Changes each job, and continues after one that cannot be changed.
fn change(
    args: &ChangeJobs,
    act: impl Fn(&mut Desk, u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut desk = Desk::existing(&args.queue)?;
    let mut faults = Vec::new();
    for id in &args.ids {
        match act(&mut desk, *id) {
            Ok(()) => show::line(&desk.job(*id)?, args.output),
            Err(fault) => faults.push(fault),
        }
    }
    match faults.len() {
        0 => Ok(()),
        1 => Err(faults.remove(0)),
        count => {
            let whys: Vec<String> = faults.iter().map(Error::text).collect();
            Err(Fault::Jobs {
                failed: count,
                all: args.ids.len(),
                whys: whys.join("; "),
            }
            .into())
        }
    }
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
