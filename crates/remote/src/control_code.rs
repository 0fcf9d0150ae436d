//! Exit status of failures of a control socket.

use lighthaul_domains::control::{ControlError, Problem};
use lighthaul_session::error::Code;

/// Returns the exit status for a control socket, at the service and at its callers.
pub fn code(why: &ControlError) -> Code {
    match why {
        ControlError::NotRunning { .. } => Code::Open,
        ControlError::Lost { .. } | ControlError::InUse(_) => Code::Network,
        ControlError::Malformed(_) | ControlError::Version { .. } => Code::Protocol,
        ControlError::Create { .. } => Code::Io,
        ControlError::Problem(problem) => match problem {
            Problem::OtherUser | Problem::OtherSource { .. } => Code::Permission,
            Problem::Busy | Problem::Stopping | Problem::NoOutcome(_) => Code::Stopping,
            Problem::Refused(_) | Problem::Over(_) => Code::Refused,
            Problem::Malformed => Code::Protocol,
            Problem::UnknownEndpoint(_)
            | Problem::Elsewhere { .. }
            | Problem::UnknownPort { .. }
            | Problem::NoNeighbors(_)
            | Problem::OutOfRange(_)
            | Problem::UnknownPath(_)
            | Problem::NoPath(_)
            | Problem::SeveralPaths(_) => Code::Usage,
        },
    }
}
