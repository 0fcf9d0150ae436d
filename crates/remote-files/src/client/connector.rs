//! Connector to the server.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};

use lighthaul_session::error::Error;
use lighthaul_session::session::Session;

use crate::message::Request;

/// Connector to the server, also for a new session after a loss.
pub trait Connector: Debug + Send + Sync {
    /// Opens a session with `request`.
    fn connect(&self, request: &Request) -> Result<Connected, Error>;
}

/// Session whose request was sent.
pub struct Connected {
    /// The session.
    pub session: Session,
    /// Value that must live as long as the session, for example a process that carries it.
    pub keep: Box<dyn Any + Send + Sync>,
}

impl Debug for Connected {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
