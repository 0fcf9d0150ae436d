//! `lighthaul jobs submit`: one copy, or a list of them.

use std::env;
use std::fs;
use std::io;
use std::path::Path;

use clap::{ArgMatches, FromArgMatches};
use lighthaul_grammar::cli::{Cli, Command};
use lighthaul_grammar::copy::Cp;
use lighthaul_grammar::help;
use lighthaul_grammar::jobs::Submit;
use lighthaul_grammar::time::Time;
use lighthaul_io::crypto::identity;
use lighthaul_queue::{JobId, JobSpec, Queue};
use lighthaul_remote::scheduler::{failed as refused, reach};
use lighthaul_session::error::{Error, FileAction};

use super::desk::{self, failed, owner, patiently, place, scheduler};
use super::request::request;
use super::show;
use crate::error::{Fault, usage};
use crate::output::print::print;

/// Queues the jobs of the arguments, and prints their numbers.
pub(super) fn run(args: &Submit) -> Result<(), Error> {
    match &args.from {
        Some(file) => list(args, file),
        None => one(args),
    }
}

fn one(args: &Submit) -> Result<(), Error> {
    let (matches, copy) = Reader::new(args).read(&args.command)?;
    if let Some(scheduler) = scheduler(&args.queue) {
        let request = request(args, &copy, words(&matches))?;
        let job = reach(&scheduler)?.submit_job(&request).map_err(refused)?;
        show::submitted(&desk::job(job), args.output);
        return Ok(());
    }
    let spec = spec(args, args.command.clone())?;
    let mut queue = Queue::open(&place(&args.queue.store)).map_err(failed)?;
    let ids = queue_all(&mut queue, &[spec])?;
    print_jobs(&mut queue, &ids, args)
}

/// Queues jobs: all or none. A repetition after a lost answer finds the jobs of the first try.
fn queue_all(queue: &mut Queue, specs: &[JobSpec]) -> Result<Vec<JobId>, Error> {
    let key = identity::token();
    patiently(|| {
        let now = queue.now()?;
        queue.submit_once(now, specs, &key)
    })
}

/// Prints queued jobs.
fn print_jobs(queue: &mut Queue, ids: &[JobId], args: &Submit) -> Result<(), Error> {
    for id in ids {
        if args.output.json {
            show::submitted(&patiently(|| queue.job(*id))?, args.output);
        } else {
            print(&id.to_string());
        }
    }
    Ok(())
}

/// Queues a copy for each line of a file.
fn list(args: &Submit, file: &Path) -> Result<(), Error> {
    let text = if file == Path::new("-") {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(file)
    };
    let text = text.map_err(|e| Error::file(FileAction::Open, file, &e))?;
    let lines = || {
        let lines = (1..).zip(text.lines().map(str::trim));
        lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    };
    let mut reader = Reader::new(args);
    let client = scheduler(&args.queue)
        .map(|scheduler| reach(&scheduler))
        .transpose()?;
    let mut requests = Vec::new();
    for (nth, line) in lines() {
        let read = split(line).and_then(|words| reader.read(&words));
        let asked = read.and_then(|(matches, copy)| match client {
            Some(_) => request(args, &copy, words(&matches)).map(|one| requests.push((nth, one))),
            None => Ok(()),
        });
        asked.map_err(|why| usage(format!("line {nth} of the list: {}", why.text())))?;
    }
    if let Some(client) = client {
        for (nth, request) in requests {
            let job = client.submit_job(&request).map_err(|why| Fault::Line {
                line: nth,
                why: refused(why),
            })?;
            show::submitted(&desk::job(job), args.output);
        }
        return Ok(());
    }
    let mut queue = Queue::open(&place(&args.queue.store)).map_err(failed)?;
    let mut commands = lines().map(|(_, line)| split(line)).peekable();
    while commands.peek().is_some() {
        let batch = commands.by_ref().take(BATCH);
        let batch: Vec<JobSpec> = batch
            .map(|words| spec(args, words?))
            .collect::<Result<_, _>>()?;
        let ids = queue_all(&mut queue, &batch)?;
        print_jobs(&mut queue, &ids, args)?;
    }
    Ok(())
}

/// Returns the job of a command.
fn spec(args: &Submit, command: Vec<String>) -> Result<JobSpec, Error> {
    let millis = |Time(at): Time| at.0 / 1_000_000;
    let every = |every: std::time::Duration| u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
    Ok(JobSpec {
        owner: owner(),
        name: args.name.clone(),
        command,
        directory: env::current_dir().map_err(Fault::Directory)?,
        priority: args.priority,
        after: args.after.iter().copied().map(JobId).collect(),
        not_before: args.at.map_or(0, millis),
        start_by: args.start_by.map(millis),
        every: args.every.map(every),
        retries: args.retries,
    })
}

/// Returns the words of a line.
fn split(line: &str) -> Result<Vec<String>, Error> {
    shlex::split(line).ok_or_else(|| usage("a quote is not closed"))
}

/// Returns the options of `cp`.
fn words(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand_matches("cp").unwrap_or(matches)
}

/// Reads the commands of jobs.
struct Reader {
    grammar: clap::Command,
    /// True if the jobs are repeated.
    recurs: bool,
}

impl Reader {
    fn new(args: &Submit) -> Self {
        Self {
            grammar: help::command(),
            recurs: args.every.is_some(),
        }
    }

    /// Reads the command of a job. Refuses one that a worker could not run.
    fn read(&mut self, command: &[String]) -> Result<(ArgMatches, Cp), Error> {
        let not_a_copy = || {
            usage("a job is a copy: write `lighthaul jobs submit [OPTIONS] cp SOURCE... TARGET`")
        };
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
        let matches = self
            .grammar
            .try_get_matches_from_mut(words)
            .map_err(faulty)?;
        let cli = Cli::from_arg_matches(&matches).map_err(faulty)?;
        let Some(Command::Cp(args)) = cli.command else {
            return Err(not_a_copy());
        };
        let choice = &args.choice;
        if choice.delete && !choice.yes && choice.dry_run.is_none() {
            return Err(wrong("--delete asks before it removes files: add --yes"));
        }
        if self.recurs && args.later.deadline.is_some() {
            return Err(wrong("a job with --every has no --by, which is one time"));
        }
        Ok((matches, args))
    }
}

/// Jobs of one transaction.
const BATCH: usize = 1000;
