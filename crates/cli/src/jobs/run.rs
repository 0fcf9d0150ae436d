//! Lists and changes of jobs.

use lighthaul_grammar::jobs::{ChangeJobs, Jobs, JobsAction, State};
use lighthaul_queue::JobState;
use lighthaul_session::error::Error;

use super::desk::Desk;
use super::{follow, share, show, submit, work};
use crate::error::Fault;

/// Lists jobs, or runs an action, and returns the exit status.
pub(crate) fn run(args: &Jobs) -> Result<u8, Error> {
    match &args.action {
        None => list(args).map(|()| 0),
        Some(JobsAction::Submit(args)) => submit::run(args).map(|()| 0),
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
