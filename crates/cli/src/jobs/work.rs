//! `lighthaul jobs work`: the worker.

use std::env;
use std::time::Duration;

use lighthaul_grammar::jobs::Work;
use lighthaul_io::host::interrupt;
use lighthaul_queue::Queue;
use lighthaul_queue::retention::Retention;
use lighthaul_queue::worker::{Activity, WorkerSettings, work};
use lighthaul_service::log;
use lighthaul_session::error::Error;
use tracing::{info, warn};

use super::desk::{failed, place};
use crate::error::Fault;
use crate::shared_options;

/// Runs jobs until a signal arrives, or none is left.
pub(super) fn run(args: &Work) -> Result<(), Error> {
    let _log = log::start(shared_options::log_format(args.log))?;
    let mut queue = Queue::open(&place(&args.store)).map_err(failed)?;
    let program = env::current_exe().map_err(Fault::Directory)?;
    let settings = WorkerSettings {
        name: args.name.clone().unwrap_or_else(name),
        program,
        slots: usize::from(args.slots),
        lease: args.lease,
        until_empty: args.until_empty,
        keep: args.keep,
        retention: Retention::default(),
        patience: PATIENCE,
        turn: TURN,
    };
    info!("{} runs up to {} jobs at a time", settings.name, args.slots);
    sd_notify::notify(&[sd_notify::NotifyState::Ready]).ok();
    let done = work(
        &mut queue,
        &settings,
        &interrupt::is_requested,
        &mut |activity| report(&activity),
    );
    done.map_err(failed)
}

fn report(activity: &Activity<'_>) {
    match *activity {
        Activity::Starts(job) => info!("job {} starts, attempt {}", job.id, job.attempt),
        Activity::Ended(job, end) if end.exit == Some(0) => {
            info!("job {} is done: {}", job.id, end.text);
        }
        Activity::Ended(job, end) => warn!("job {} has not succeeded: {}", job.id, end.text),
        Activity::Lost(job) => warn!("job {} was given to another worker meanwhile", job.id),
        Activity::Yields(job) => info!(
            "job {} of {} stops, and continues later: another owner waits for its share",
            job.id, job.owner
        ),
        Activity::Fails(why) => warn!("{why}; its jobs run on, and the worker tries again"),
        Activity::Recovers => info!("the queue works again"),
    }
}

/// Returns the name of this host and the number of this process.
fn name() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    format!("{host}:{}", std::process::id())
}

/// Time that interrupted copies get to end before they are killed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time that an owner waits for its share before a job of another owner makes room.
const TURN: Duration = Duration::from_mins(1);
