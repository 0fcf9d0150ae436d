//! Lines on standard output and standard error.

use std::io::{self, Write, stdout};
use std::path::Path;
use std::sync::OnceLock;

use lighthaul_base::escape::escape_json;
pub(crate) use lighthaul_remote::notice::say;
use lighthaul_session::error::{Error, FileAction};
use serde_json::{Value, json};

/// Prints a line on standard output. [`unprinted`] reports a failure when the command ends.
pub(crate) fn print(text: &str) {
    print_octets(text.as_bytes());
}

/// Prints a line of octets on standard output.
pub(crate) fn print_octets(line: &[u8]) {
    let mut out = stdout().lock();
    let printed = out.write_all(line).and_then(|()| out.write_all(b"\n"));
    if let Err(error) = printed {
        UNPRINTED.set(error).ok();
    }
}

/// First failure to write standard output.
static UNPRINTED: OnceLock<io::Error> = OnceLock::new();

/// Returns the failure to write standard output. A closed pipe is none, since its reader has stopped reading.
pub(crate) fn unprinted() -> Option<Error> {
    let flushed = stdout().flush().err();
    let error = UNPRINTED.get().or(flushed.as_ref())?;
    let is_loss = error.kind() != io::ErrorKind::BrokenPipe;
    is_loss.then(|| Error::file(FileAction::Write, Path::new("standard output"), error))
}

/// Prints a JSON object as one line; hidden characters in it are escaped as JSON allows.
pub(crate) fn print_json(event: &Value) {
    print(&escape_json(&event.to_string()));
}

/// Prints `error` as an event.
pub(crate) fn error_event(error: &Error) {
    let event = json!({"v": 1, "type": "error", "code": error.code() as u8, "text": error.text()});
    print_json(&event);
}
