//! Messages of the NSI Connection Service 2.1.
//!
//! - [`envelope`]: the SOAP envelope with its header; [`body`]: all messages; `wire`: their
//!   elements; [`name`]: names of elements and namespaces
//! - [`criteria`]: schedule and point-to-point service; [`states`]: states of a connection
//! - [`query`]: answers to queries; [`notification`]: reports without a request
//! - [`exception`]: errors with their codes

pub mod body;
pub mod criteria;
pub mod envelope;
pub mod exception;
pub mod name;
pub mod notification;
pub mod query;
pub mod states;
mod wire;

pub use body::{Failure, Message, Operation, Reserve, ReserveConfirmed};
pub use criteria::{Criteria, Directionality, P2p, Schedule};
pub use envelope::{Envelope, Header};
pub use exception::{ErrorId, ServiceException};
pub use notification::{Notification, NotificationKind};
pub use states::{ConnectionStates, DataPlaneStatus};
