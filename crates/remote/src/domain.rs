//! Questions to the service of this host's domain.

use std::path::Path;

use lighthaul_domains::control::{self, Answer, PathView, Question, StatusView};
use lighthaul_session::error::Error;

use crate::error::Fault;

/// Asks the service of a domain for its status.
pub fn status(socket: &Path) -> Result<StatusView, Error> {
    match control::ask(socket, &Question::Status).map_err(Fault::Control)? {
        Answer::Status(status) => Ok(status),
        Answer::Path(_) | Answer::Problem(_) => Err(Fault::Answer.into()),
    }
}

/// Asks the service of a domain a question about a path.
pub fn ask(socket: &Path, question: &Question) -> Result<PathView, Error> {
    match control::ask(socket, question).map_err(Fault::Control)? {
        Answer::Path(path) => Ok(path),
        Answer::Status(_) | Answer::Problem(_) => Err(Fault::Answer.into()),
    }
}
