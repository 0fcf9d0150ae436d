//! First line of a program on the other host, after lines that its login shell may print.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::process::ChildStdout;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_session::error::Error;

/// Reads until the first line that has the word `mark`, and returns the words after it; see [`read_line`].
pub(crate) fn read_words(
    input: &mut impl Read,
    mark: &str,
    until: Limit,
) -> Result<Option<Vec<String>>, Error> {
    let line = read_line(input, &[mark], until)?;
    Ok(line.map(|(_, words)| words))
}

/// Reads until the first line that has one of the words `marks`. Returns that word and those after it. Returns
/// `None` if `input` ends, or if there are more lines or bytes than a login shell may print.
///
/// Octets are read one at a time, since those after the line belong to the session.
pub fn read_line<'a>(
    input: &mut impl Read,
    marks: &[&'a str],
    until: Limit,
) -> Result<Option<(&'a str, Vec<String>)>, Error> {
    let mut line = Vec::new();
    let (mut bytes, mut lines) = (0, 0);
    let mut octet = [0];
    while bytes < BYTES_MAX && lines < LINES_MAX {
        interrupt::check()?;
        match input.read(&mut octet) {
            Ok(0) => return Ok(None),
            Ok(_) => bytes += 1,
            Err(error) if is_passing(&error) && !until.has_come() => continue,
            Err(_) => return Ok(None),
        }
        if octet[0] != b'\n' {
            line.push(octet[0]);
            continue;
        }
        lines += 1;
        let text = String::from_utf8_lossy(&line);
        // a shell may print a prompt without an end of line
        let marked = |mark: &&'a str| Some((*mark, text.split_once(*mark)?.1));
        if let Some((mark, rest)) = marks.iter().find_map(marked) {
            let words = rest.split_whitespace().map(str::to_owned);
            return Ok(Some((mark, words.collect())));
        }
        line.clear();
    }
    Ok(None)
}

/// Deadline for a line, if any.
#[derive(Clone, Copy, Debug)]
pub struct Limit(pub Option<(Clock, Instant)>);

impl Limit {
    /// Returns the limit that comes after `patience`.
    pub(crate) fn after(patience: Duration) -> Self {
        Self(Some((Clock::start(), Instant::ZERO + patience)))
    }

    /// Returns true if the time has passed.
    pub(crate) fn has_come(self) -> bool {
        self.0.is_some_and(|(clock, until)| clock.now() >= until)
    }
}

/// Output of a process. Reads time out after [`READ_INTERVAL`], so that a limit applies to them.
#[derive(Debug)]
pub(crate) struct PolledOutput(pub(crate) ChildStdout);

impl PolledOutput {
    /// Waits until the output has data or has ended. Returns false after [`READ_INTERVAL`].
    pub(crate) fn is_ready(&self) -> io::Result<bool> {
        let clock = Clock::start();
        let mut watches = [Watch::read(self.0.as_raw_fd())];
        wait(clock, &mut watches, clock.now() + READ_INTERVAL)?;
        Ok(watches[0].readable)
    }
}

impl Read for PolledOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_ready()? {
            self.0.read(buffer)
        } else {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Longest wait of one read.
const READ_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of lines that a login shell may print before the greeting.
const LINES_MAX: usize = 1000;
/// Maximum number of bytes that a login shell may print before the greeting.
const BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(mut input: &[u8]) -> (Option<Vec<String>>, usize) {
        let found = read_words(&mut input, "lighthaul-1", Limit(None)).unwrap();
        (found, input.len())
    }

    #[test]
    fn greeting_is_found_after_other_output_of_a_shell() {
        let wanted = Some(vec!["7".to_owned(), "key".to_owned()]);
        assert_eq!(words(b"lighthaul-1 7 key\nx"), (wanted.clone(), 1));
        let noise = b"\xff\xfe\nhello\r\n\n$ lighthaul-1 7 key\r\n";
        assert_eq!(words(noise), (wanted, 0));
    }

    #[test]
    fn endless_shell_output_is_refused() {
        let (found, left) = words(&vec![b'x'; 1 << 20]);
        assert_eq!((found, left), (None, (1 << 20) - BYTES_MAX));
        let (found, left) = words(&b"x\n".repeat(5000));
        assert_eq!((found, left), (None, 2 * (5000 - LINES_MAX)));
        assert_eq!(words(b"lighthaul-1 7"), (None, 0));
    }
}
