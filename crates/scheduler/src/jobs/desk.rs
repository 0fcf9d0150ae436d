//! Desk of a queue: requests of clients, each within its rights.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use lighthaul_booking::books::{Policy, Principal};
use lighthaul_booking_client::json::{
    JobEventView, JobLogPiece, JobPage, JobStatus, JobView, NewJob,
};
use lighthaul_booking_client::role::Role;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_queue::list::Selection;
use lighthaul_queue::{
    Error as QueueError, JobId, Queue, Request, RequestKey, Result as QueueResult, owner,
};

use super::job_error::JobError;
use super::specification::{permit, specification};
use super::view;
use super::watch::{Watch, check_runs};
use crate::identity::Standing;

/// Result of a request about jobs.
pub type Result<T> = std::result::Result<T, JobError>;

/// Queue of jobs, with some connections to it.
#[derive(Debug)]
pub struct JobDesk {
    place: PathBuf,
    idle: Mutex<Vec<Queue>>,
    watch: Watch,
}

/// Selection of jobs of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobFilter {
    /// Owner; the client itself unless it is an operator.
    pub(crate) owner: Option<String>,
    /// States; all if empty.
    pub(crate) states: Vec<JobStatus>,
    /// Number before which the list begins.
    pub(crate) before: Option<u64>,
    /// Most jobs.
    pub(crate) limit: usize,
}

impl JobDesk {
    /// Opens the queue at `place`, a file or the URL of a `PostgreSQL` server.
    pub fn open(place: PathBuf) -> QueueResult<Self> {
        let queue = Queue::open(&place)?;
        Ok(Self {
            place,
            idle: Mutex::new(vec![queue]),
            watch: Watch::start(),
        })
    }

    /// Looks after the queue: checks its store at times, and the runs of series whose time has come.
    pub(crate) fn look(
        &self,
        policy_of: impl Fn(&str) -> Policy,
        standing_of: impl Fn(&str) -> Standing,
    ) {
        let is_due = self.watch.begin();
        let looked = self.with(|queue| {
            if is_due {
                let now = queue.now()?;
                queue.check_store(now)?;
            }
            check_runs(queue, policy_of, standing_of)
        });
        self.watch.note(&looked);
    }

    /// Returns the fault of the queue, if it cannot be used.
    pub(crate) fn fault(&self) -> Option<String> {
        self.watch.fault()
    }

    /// Submits a job. A repeated request with the same key returns the job of the first one.
    pub(crate) fn submit(
        &self,
        principal: &Principal,
        policy: &Policy,
        new: &NewJob,
        key: Option<String>,
    ) -> Result<JobView> {
        if principal.role < Role::User {
            return Err(JobError::Forbidden {
                name: principal.name.clone(),
                action: "submit jobs",
            });
        }
        let spec = specification(principal, policy, new)?;
        let text = serde_json::to_string(new).unwrap_or_default();
        let request = Request {
            key,
            digest: Fingerprint::of_token(&text).to_string(),
            open_max: OPEN_MAX,
        };
        self.with(|queue| {
            // jobs of others are unknown, so that no client learns about them
            for id in &spec.after {
                own(queue, principal, id.0)?;
            }
            let now = queue.now()?;
            let id = queue.request(now, &spec, &request)?;
            Ok(view::view(queue.job(id)?))
        })
    }

    /// Returns jobs that the client may see.
    pub(crate) fn list(&self, principal: &Principal, filter: &JobFilter) -> Result<JobPage> {
        let owner = match &filter.owner {
            Some(owner) if !principal.may(owner) => {
                return Err(JobError::Forbidden {
                    name: principal.name.clone(),
                    action: "list the jobs of others",
                });
            }
            // the name of a client may look like that of a user of a host
            _ if principal.role < Role::Operator => Some(owner::of_client(&principal.name)),
            owner => owner.as_deref().map(view::stored_owner),
        };
        let selection = Selection {
            states: filter.states.iter().copied().map(view::state).collect(),
            owner,
        };
        self.with(|queue| {
            let before = filter.before.map(JobId);
            let jobs = queue.jobs(&selection, before, filter.limit)?;
            let next = jobs.last().filter(|_| jobs.len() == filter.limit);
            Ok(JobPage {
                next: next.map(|job| job.id.0),
                items: jobs.into_iter().map(view::view).collect(),
            })
        })
    }

    /// Returns a job.
    pub(crate) fn job(&self, principal: &Principal, id: u64) -> Result<JobView> {
        self.with(|queue| own(queue, principal, id))
    }

    /// Returns the history of a job.
    pub(crate) fn events(&self, principal: &Principal, id: u64) -> Result<Vec<JobEventView>> {
        self.with(|queue| {
            own(queue, principal, id)?;
            let events = queue.events(JobId(id))?;
            Ok(events.into_iter().map(view::event).collect())
        })
    }

    /// Returns pieces of the log of a job after `after`, an attempt and a number within it.
    pub(crate) fn log(
        &self,
        principal: &Principal,
        id: u64,
        after: (u32, u64),
    ) -> Result<Vec<JobLogPiece>> {
        self.with(|queue| {
            own(queue, principal, id)?;
            let pieces = queue.log(JobId(id), after, PIECES_MAX)?;
            Ok(pieces.into_iter().map(view::piece).collect())
        })
    }

    /// Cancels a job.
    pub(crate) fn cancel(
        &self,
        principal: &Principal,
        id: u64,
        key: Option<&str>,
    ) -> Result<JobView> {
        self.change(principal, id, |queue, now| {
            let owner = owner::of_client(&principal.name);
            let key = key.map(|key| RequestKey { owner: &owner, key });
            Ok(queue.cancel_once(now, JobId(id), key).map(drop)?)
        })
    }

    /// Queues a failed or canceled job again, if the policy of the client still permits it.
    pub(crate) fn retry(
        &self,
        principal: &Principal,
        policy: &Policy,
        id: u64,
        key: Option<&str>,
    ) -> Result<JobView> {
        if principal.role < Role::User {
            return Err(JobError::Forbidden {
                name: principal.name.clone(),
                action: "submit jobs",
            });
        }
        self.change(principal, id, |queue, now| {
            let job = queue.job(JobId(id))?;
            permit(principal, policy, &job.command, job.priority)?;
            let owner = owner::of_client(&principal.name);
            let key = key.map(|key| RequestKey { owner: &owner, key });
            Ok(queue.retry_once(now, JobId(id), key, OPEN_MAX)?)
        })
    }

    fn change(
        &self,
        principal: &Principal,
        id: u64,
        act: impl FnOnce(&mut Queue, u64) -> Result<()>,
    ) -> Result<JobView> {
        self.with(|queue| {
            own(queue, principal, id)?;
            let now = queue.now()?;
            act(queue, now)?;
            Ok(view::view(queue.job(JobId(id))?))
        })
    }

    /// Executes an action with a connection that no other request uses.
    fn with<T, E: From<QueueError>>(
        &self,
        act: impl FnOnce(&mut Queue) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let open = idle().pop();
        let mut queue = match open {
            Some(queue) => queue,
            None => Queue::open(&self.place)?,
        };
        let done = act(&mut queue);
        let mut idle = idle();
        if idle.len() < IDLE_MAX {
            idle.push(queue);
        }
        done
    }
}

/// Returns a job that the client may see and change.
fn own(queue: &mut Queue, principal: &Principal, id: u64) -> Result<JobView> {
    let job = queue.job(JobId(id))?;
    let is_own = owner::client_of(&job.owner).is_some_and(|client| principal.may(client));
    if is_own || principal.role >= Role::Operator {
        Ok(view::view(job))
    } else {
        Err(JobError::Unknown(id))
    }
}

/// Most jobs of an owner that have not ended.
const OPEN_MAX: u64 = 10_000;
/// Most pieces of a log in an answer.
const PIECES_MAX: usize = 16;
/// Most connections that are kept.
const IDLE_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use lighthaul_queue::JobSpec;

    use super::*;

    #[test]
    fn client_whose_name_looks_like_an_owner_lists_its_own_jobs() {
        let name = format!("lighthaul-desk-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        let desk = JobDesk::open(place.clone()).unwrap();
        let mut queue = Queue::open(&place).unwrap();
        let job = |owner: String| JobSpec {
            owner,
            command: vec!["cp".to_owned()],
            directory: "/".into(),
            ..JobSpec::default()
        };
        let names = ["local:ada", "rest:ada"];
        let mut owners = vec![owner::of_user("ada"), owner::of_client("ada")];
        owners.extend(names.map(owner::of_client));
        let jobs: Vec<JobSpec> = owners.into_iter().map(job).collect();
        queue.submit(1, &jobs).unwrap();
        for (name, id) in names.into_iter().zip([3, 4]) {
            let client = Principal::new(name, Role::User);
            for owner in [None, Some(name.to_owned())] {
                let filter = JobFilter {
                    owner,
                    limit: 9,
                    ..JobFilter::default()
                };
                let found = desk.list(&client, &filter).unwrap().items;
                let found: Vec<u64> = found.iter().map(|job| job.id).collect();
                assert_eq!(found, [id], "{name}");
            }
        }
        for end in ["", "-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", place.display())).ok();
        }
    }
}
