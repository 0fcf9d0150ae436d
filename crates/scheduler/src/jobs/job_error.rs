//! Refusals of requests about jobs.

use lighthaul_booking::books::JobPlaceError;
use lighthaul_booking::error::PolicyError;
use lighthaul_queue::Error as QueueError;

/// Refusal of a request about jobs.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The scheduler has no queue.
    #[error("this scheduler has no queue of jobs: start it with --jobs")]
    NoQueue,
    /// The job does not exist, or belongs to another client.
    #[error("no job has the number {0}, or it is not yours")]
    Unknown(u64),
    /// A property of the request that no job can have.
    #[error("{0}")]
    Misuse(&'static str),
    /// A place that no job can have.
    #[error(transparent)]
    Place(#[from] JobPlaceError),
    /// A place that the policy of the owner does not permit.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// An action that needs another role.
    #[error("{name} may not {action}: ask an operator")]
    Forbidden {
        /// Name of the identity.
        name: String,
        /// Action that the client may not perform.
        action: &'static str,
    },
    /// Refusal or fault of the queue.
    #[error(transparent)]
    Queue(QueueError),
}

impl From<QueueError> for JobError {
    fn from(error: QueueError) -> Self {
        if let QueueError::Unknown(id) = error {
            Self::Unknown(id.0)
        } else {
            Self::Queue(error)
        }
    }
}
