//! Lines on standard output and standard error.

use std::io::{self, IsTerminal, Write, stdout};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lighthaul_base::escape::{escape_json, escape_name};
use lighthaul_files::sums::line;
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
    record(printed);
}

/// Records a failure to write standard output for [`unprinted`].
pub(crate) fn record(printed: io::Result<()>) {
    if let Err(error) = printed {
        UNPRINTED.set(error).ok();
    }
}

/// Returns the line of a file in a list of hashes. A terminal gets no hidden characters of a path, which may come from
/// another host; a program gets all octets.
pub(crate) fn hash_line(digits: &str, path: &[u8]) -> Vec<u8> {
    hash_line_for(stdout().is_terminal(), digits, path)
}

fn hash_line_for(is_terminal: bool, digits: &str, path: &[u8]) -> Vec<u8> {
    if is_terminal {
        format!("{digits}  {}", escape_name(path)).into_bytes()
    } else {
        line::line(digits, path)
    }
}

/// First failure to write standard output.
static UNPRINTED: OnceLock<io::Error> = OnceLock::new();

/// Returns the error that ends a command which cannot write standard output.
pub(crate) fn output_failed(error: io::Error) -> Error {
    let is_closed = error.kind() == io::ErrorKind::BrokenPipe;
    HAS_NO_READER.store(is_closed, Relaxed);
    let failed = Error::file(FileAction::Print, Path::new("standard output"), &error);
    record(Err(error));
    failed
}

/// True if a command ended because its standard output is a closed pipe.
static HAS_NO_READER: AtomicBool = AtomicBool::new(false);

/// Returns true if the command ended because its standard output is a closed pipe. Its reader needs no more.
pub(crate) fn has_no_reader() -> bool {
    HAS_NO_READER.load(Relaxed)
}

/// Returns the failure to write standard output. A closed pipe is none, since its reader has stopped reading.
pub(crate) fn unprinted() -> Option<Error> {
    let flushed = stdout().flush().err();
    let error = UNPRINTED.get().or(flushed.as_ref())?;
    let is_loss = error.kind() != io::ErrorKind::BrokenPipe;
    is_loss.then(|| Error::file(FileAction::Print, Path::new("standard output"), error))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_gets_no_control_characters_of_a_path() {
        let path = b"a\x1b[2J\xff";
        assert_eq!(hash_line_for(true, "00", path), b"00  a\\x1b[2J\\xff");
        assert_eq!(hash_line_for(false, "00", path), b"00  a\x1b[2J\xff");
    }
}
