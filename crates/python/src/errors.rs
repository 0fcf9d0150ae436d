//! Errors as exceptions of the package, which `lighthaul._errors` defines.

use lighthaul::{Code, Error, Failure, FailureKind};
use lighthaul_booking_client::client::ClientError;
use lighthaul_booking_client::json::Problem;
use lighthaul_remote::error::Fault as RemoteFault;
use pyo3::prelude::*;

/// Returns the exception for an error.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).map_or_else(|failed| failed, PyErr::from_value)
}

/// Returns the exception for an error as an object.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let text = error.text();
    let reason = match error.fault::<Failure>() {
        Some(failure) => reason_of(failure.kind),
        None => reason_in(&text),
    };
    let module = py.import("lighthaul._errors")?;
    let problem = problem_of(error).and_then(|problem| serde_json::to_string(problem).ok());
    module.call_method1("make", (error.code() as u8, text, reason, problem))
}

/// Returns the answer of a scheduler that has refused a request.
fn problem_of(error: &Error) -> Option<&Problem> {
    let Some(RemoteFault::Scheduler(ClientError::Problem(problem))) = error.fault() else {
        return None;
    };
    Some(problem)
}

/// Returns the reason of a failed request about a remote file.
const fn reason_of(kind: FailureKind) -> Option<&'static str> {
    match kind {
        FailureKind::NotFound => Some("ENOENT"),
        FailureKind::Exists => Some("EEXIST"),
        FailureKind::NotFolder => Some("ENOTDIR"),
        FailureKind::IsFolder => Some("EISDIR"),
        FailureKind::NotEmpty => Some("ENOTEMPTY"),
        FailureKind::NoSpace => Some("ENOSPC"),
        FailureKind::ReadOnly => Some("EROFS"),
        FailureKind::Busy | FailureKind::Crowded => Some("EBUSY"),
        FailureKind::Denied
        | FailureKind::Changed
        | FailureKind::Corrupt
        | FailureKind::Invalid
        | FailureKind::Lost
        | FailureKind::Other => None,
    }
}

/// Returns the reason of the system at the end of an error. Both sides word it in the same way.
#[pyfunction(name = "reason")]
pub(crate) fn reason_in(text: &str) -> Option<&'static str> {
    let (_, reason) = text.rsplit_once(": ")?;
    let found = REASONS.iter().find(|(begin, _)| reason.starts_with(begin));
    found.map(|(_, name)| *name)
}

/// Returns what to do about an error with this exit status and text.
#[pyfunction(name = "remedy")]
pub(crate) fn remedy_of(code: u8, text: String) -> String {
    let code = Code::from_number(code);
    Error::from(RemoteFault::Named { code, text }).remedy()
}

const REASONS: [(&str, &str); 6] = [
    ("no such file or directory", "ENOENT"),
    ("file exists", "EEXIST"),
    ("not a directory", "ENOTDIR"),
    ("is a directory", "EISDIR"),
    ("directory not empty", "ENOTEMPTY"),
    ("the disk is full", "ENOSPC"),
];
