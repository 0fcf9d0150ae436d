//! The grammar of `lighthaul jobs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, value_parser};

use crate::output::{LogArgs, OutputArgs};
use crate::time::{Time, positive};

/// Queue copies, which run without this terminal, and show them
///
/// Without an action, it lists the jobs that have not ended. `lighthaul jobs work` is the worker that runs them: as a
/// service, or in another terminal. Jobs, their history and their output are in a file, or in a `PostgreSQL` server for
/// workers on several hosts. They outlive clients and workers.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "Examples:
  lighthaul jobs submit cp results lh://far/archive
  lighthaul jobs submit --after 12 --priority 5 cp more lh://far/archive
  lighthaul jobs submit --every 1d cp --delete --yes results lh://far/mirror
  lighthaul jobs watch 13
  lighthaul jobs retry 12
  lighthaul jobs work --slots 4"
)]
pub struct Jobs {
    /// Action on jobs
    #[command(subcommand)]
    pub action: Option<JobsAction>,
    /// List ended jobs, too
    #[arg(long, help_heading = "Selection")]
    pub all: bool,
    /// List jobs in these states only
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "STATE",
        help_heading = "Selection"
    )]
    pub state: Vec<State>,
    /// List at most this many jobs, the newest first
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1000,
        help_heading = "Selection"
    )]
    pub limit: usize,
    #[command(flatten)]
    pub queue: QueueArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Waits for its time, for a retry, or for other jobs
    Waiting,
    /// Waits for a worker
    Queued,
    /// Runs
    Running,
    /// Ended with success
    Done,
    /// Ended with a failure
    Failed,
    /// Ended by its user
    Canceled,
}

/// Action on jobs.
#[derive(Subcommand, Debug)]
pub enum JobsAction {
    Submit(Submit),
    /// Show jobs in full, with their history
    #[command(after_long_help = "Examples:
  lighthaul jobs show 12
  lighthaul jobs show --json 12 | jq .history")]
    Show(ShowJobs),
    Watch(Watch),
    Logs(Logs),
    /// Queue failed or canceled jobs again
    #[command(after_long_help = "Examples:
  lighthaul jobs retry 12 13")]
    Retry(ChangeJobs),
    /// Cancel jobs; a running copy stops, and keeps what has arrived
    #[command(after_long_help = "Examples:
  lighthaul jobs cancel 12 13")]
    Cancel(ChangeJobs),
    Share(Share),
    Work(Work),
}

/// Database of the queue.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Advanced")]
pub struct StoreArgs {
    /// Queue: file or postgres:// URL [default: jobs.db]
    ///
    /// The file is `$XDG_STATE_HOME/lighthaul/jobs.db` or `~/.local/state/lighthaul/jobs.db`, and
    /// `/var/lib/lighthaul/jobs.db` for root. Workers on several hosts share a server of `PostgreSQL`, as in
    /// `postgres://jobs@db.example.org/jobs?sslmode=verify-full`.
    #[arg(long, value_name = "PLACE", env = "LIGHTHAUL_QUEUE")]
    pub queue: Option<PathBuf>,
}

/// Queue of jobs, or the scheduler that has it.
#[derive(Args, Clone, Debug)]
pub struct QueueArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// URL of a scheduler with a queue, instead of --queue
    #[arg(long, value_name = "URL", help_heading = "Network")]
    pub scheduler: Option<String>,
    /// File with the token for the scheduler
    ///
    /// `LIGHTHAUL_SCHEDULER_TOKEN` may hold the token itself.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_SCHEDULER_TOKEN_FILE",
        help_heading = "Network"
    )]
    pub token_file: Option<PathBuf>,
    /// Require this key of the scheduler (sha256:...)
    ///
    /// Without it the scheduler must show a trusted certificate or the key in `known_hosts`.
    #[arg(
        long,
        value_name = "KEY",
        requires = "scheduler",
        help_heading = "Network"
    )]
    pub pin: Option<String>,
}

/// Queue copies and print their numbers
///
/// The words after the options are a `lighthaul cp` command. It runs in this directory, with the environment of the
/// worker. A failure of the network, a full disk and other failures that may pass are retried later; the copy then
/// resumes. With --scheduler, a worker elsewhere runs it: all places are lh:// or object stores, and the options are
/// --delete --yes, --update, --checksum, --archive, --exclude and --rate.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul jobs submit cp results lh://far/archive
  lighthaul jobs submit --at 22:00 --start-by 06:00 cp results lh://far/archive
  lighthaul jobs submit cp --book --by 18:30 results lh://far/archive
  lighthaul jobs submit --from copies.txt          # lines as: cp 'run 7' lh://far/archive
  lighthaul jobs submit --scheduler https://books.example.org:4811 cp lh://near/results lh://far/archive/")]
pub struct Submit {
    /// Name, shown in lists
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true,
        help_heading = "Selection"
    )]
    pub name: String,
    /// Priority; higher first
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        help_heading = "Selection"
    )]
    pub priority: i32,
    /// Start once these jobs are done; fail if one of them fails
    #[arg(
        long,
        value_name = "JOB",
        value_delimiter = ',',
        help_heading = "Selection"
    )]
    pub after: Vec<u64>,
    /// Earliest start, as in 22:00 or 2031-05-01T06:00 [default: now]
    #[arg(long, value_name = "TIME", help_heading = "Selection")]
    pub at: Option<Time>,
    /// Latest start, after which the job fails
    #[arg(long, value_name = "TIME", help_heading = "Selection")]
    pub start_by: Option<Time>,
    /// Repeat the job at this interval, as in 1d
    #[arg(long, value_name = "DURATION", value_parser = positive, conflicts_with = "start_by", help_heading = "Selection")]
    pub every: Option<Duration>,
    /// Most retries after failures that may pass
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        help_heading = "Selection"
    )]
    pub retries: u32,
    /// Queue the `cp` command of each line of a file; - is standard input
    ///
    /// Lines are quoted as for a shell. All lines are checked before the first is queued. Empty lines and those that begin with # are skipped.
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub from: Option<PathBuf>,
    /// `cp` with its options and paths
    #[arg(
        required_unless_present = "from",
        conflicts_with = "from",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<String>,
    #[command(flatten)]
    pub queue: QueueArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args, Debug)]
pub struct ShowJobs {
    /// Numbers of jobs
    #[arg(required = true, value_name = "JOB")]
    pub ids: Vec<u64>,
    #[command(flatten)]
    pub queue: QueueArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Show a job until it ends
///
/// The exit status is that of its copy: 0 if it is done, 20 if it was canceled, and 40 if it was not started.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul jobs watch 12 && echo done")]
pub struct Watch {
    /// Number of the job
    #[arg(value_name = "JOB")]
    pub id: u64,
    #[command(flatten)]
    pub queue: QueueArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Print the output of a job's copies
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul jobs logs --follow 12")]
pub struct Logs {
    /// Number of the job
    #[arg(value_name = "JOB")]
    pub id: u64,
    /// Print further output until the job ends
    #[arg(short, long, help_heading = "Output")]
    pub follow: bool,
    #[command(flatten)]
    pub queue: QueueArgs,
}

#[derive(Args, Debug)]
pub struct ChangeJobs {
    /// Numbers of jobs
    #[arg(required = true, value_name = "JOB")]
    pub ids: Vec<u64>,
    #[command(flatten)]
    pub queue: QueueArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Show or set the shares of owners
///
/// Jobs of equal priority take turns by their owners. An owner with share 2 gets twice the workers of an owner with
/// share 1, which is the default. Without a share, it lists all owners that have jobs or a share.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul jobs share
  lighthaul jobs share alice 2")]
pub struct Share {
    /// Owner of jobs
    #[arg(value_name = "OWNER", requires = "share")]
    pub owner: Option<String>,
    /// Share of the owner, from 1
    #[arg(value_name = "SHARE", value_parser = value_parser!(u32).range(1..))]
    pub share: Option<u32>,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Run queued jobs until a signal arrives
///
/// Several workers may share a queue. After the first signal, the copies stop and their jobs are queued again. If a
/// worker is killed, another one resumes its jobs after --lease.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul jobs work
  lighthaul jobs work --slots 4 --until-empty
  lighthaul jobs work --queue postgres://jobs@db.example.org/jobs?sslmode=verify-full
  systemctl --user enable --now lighthaul-jobs")]
pub struct Work {
    /// Copies at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u16).range(1..=256), help_heading = "Selection")]
    pub slots: u16,
    /// End once no job is queued, runs or waits for a time
    #[arg(long, help_heading = "Selection")]
    pub until_empty: bool,
    /// Name of the worker [default: HOST:PID]
    #[arg(long, value_name = "NAME", help_heading = "Advanced")]
    pub name: Option<String>,
    /// Queue a job again after this long without news of its worker
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = positive, help_heading = "Advanced")]
    pub lease: Duration,
    /// Delete ended jobs after this long
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = positive, help_heading = "Advanced")]
    pub keep: Duration,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub log: LogArgs,
}
