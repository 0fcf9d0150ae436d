//! Floor 4: a queue of transfers that outlives clients, workers and hosts.
//!
//! ```text
//! submit -> Waiting -> Queued -> Running -> Done, Failed or Canceled
//!              ^                    |
//!              '---- retry later ---'
//! ```
//!
//! - [`job`]: a job, its states and its end; [`spec`]: what a client submits
//! - [`queue`]: the jobs, and the work of clients; [`claims`]: the work of workers; [`list`]: reading of jobs and events;
//!   `submission`, `life`: rules within a transaction
//! - `series`: checks of recurring jobs; [`owner`]: names of owners; [`turns`], `fairness`: their turns; [`retention`]: what is kept; [`secrets`]: what is not shown
//! - `database`: a file of one host, or a server for workers on many hosts, with the same statements
//! - [`worker`]: a process that runs jobs; `child`: the command of a job; [`error`]: faults
//!
//! A worker claims a job with a lease and renews it. A lease that ends without news puts the job back, so a killed
//! worker loses no job. Each claim has the number of its attempt, and only the newest attempt can end a job. So a job
//! ends once.

pub mod claims;
pub mod error;
pub mod job;
pub mod list;
pub mod owner;
pub mod queue;
pub mod retention;
pub mod secrets;
pub mod spec;
pub mod turns;
pub mod worker;

mod child;
mod database;
mod fairness;
mod life;
mod series;
mod submission;

pub use error::{Error, Result};
pub use job::{Job, JobEnd, JobId, JobState};
pub use queue::Queue;
pub use spec::{JobSpec, Request, RequestKey};
