//! Command `lighthaul gateway status`: status of a running gateway, as a table or as JSON.
//!
//! The gateway writes its status as one line of JSON to each client of its status socket. `StatusReading` is
//! the status at one time. Without `--once`, the command asks once a second. Columns `OUT/S` and
//! `IN/S` are rates between two looks at the same link, and `-` at the first. A narrow terminal
//! shows fewer columns.

use std::io::{IsTerminal, Read, Write, stdout};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Size};
use lighthaul_grammar::gateway::Status;
use lighthaul_io::host::clock::Clock;
use lighthaul_remote::paths;
use lighthaul_session::error::{Error, FileAction};
use serde_json::Value;

use crate::error::Fault;
use crate::output::print::print;

/// Shows the status of a gateway, once or until the process is stopped.
pub(crate) fn run(args: &Status) -> Result<(), Error> {
    let path = args.socket.clone().unwrap_or_else(paths::gateway_socket);
    let clock = Clock::start();
    let mut before = None;
    loop {
        let line = ask(&path)?;
        let look = StatusReading::read(clock.now(), &line)?;
        if args.output.json {
            print(line.trim_end());
        } else {
            if stdout().is_terminal() && !args.once {
                stdout().write_all(CLEAR).ok();
            }
            print(&look.table(before.as_ref(), terminal_width()));
        }
        if args.once || stdout().flush().is_err() {
            return Ok(());
        }
        before = Some(look);
        thread::park_timeout(SECOND);
    }
}

fn ask(path: &Path) -> Result<String, Error> {
    let failed = |error| Error::file(FileAction::OpenSocket, path, &error);
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut line = String::new();
    stream.read_to_string(&mut line).map_err(failed)?;
    Ok(line)
}

/// Status at one time.
#[derive(Debug)]
struct StatusReading {
    at: Instant,
    links: Vec<Value>,
}

impl StatusReading {
    fn read(at: Instant, line: &str) -> Result<Self, Error> {
        let unclear = || Error::from(Fault::Status);
        let event: Value = serde_json::from_str(line).map_err(|_| unclear())?;
        let links = event["links"].as_array().cloned().ok_or_else(unclear)?;
        Ok(Self { at, links })
    }

    /// Returns a row for each link, in as many columns as fit. Rates are since the previous status, if any.
    fn table(&self, before: Option<&Self>, terminal: Option<usize>) -> String {
        let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
        for (nth, link) in self.links.iter().enumerate() {
            let earlier = before.and_then(|look| Some((look.at, look.links.get(nth)?)));
            let earlier = earlier.filter(|(_, earlier)| earlier["peer"] == link["peer"]);
            rows.push(self.row(link, earlier));
        }
        if self.links.is_empty() {
            return "no link yet".to_owned();
        }
        align(&rows, terminal)
    }

    fn row(&self, link: &Value, earlier: Option<(Instant, &Value)>) -> Vec<String> {
        let number = |name: &str| link[name].as_u64().unwrap_or(0);
        let speed = |name: &str| {
            let Some((at, earlier)) = earlier else {
                return "-".to_owned();
            };
            let more = number(name).saturating_sub(earlier[name].as_u64().unwrap_or(0));
            match more {
                0 => "0".to_owned(),
                _ => Rate::of(more, self.at.since(at)).to_string(),
            }
        };
        let state = match (&link["connected"], &link["refused"]) {
            (Value::Bool(true), _) => "up",
            (_, Value::Bool(true)) => "refused",
            _ => "down",
        };
        let peer: String = link["peer"]
            .as_str()
            .unwrap_or("?")
            .chars()
            .take(24)
            .collect();
        let size = |name: &str| Size(number(name)).to_string();
        vec![
            peer,
            state.to_owned(),
            number("sessions").to_string(),
            speed("bytes_out"),
            speed("bytes_in"),
            size("bytes_out"),
            size("bytes_in"),
            number("datagrams_resent").to_string(),
            number("slabs_held").to_string(),
            number("slabs").to_string(),
            number("credit_pages").to_string(),
            size("memory_out_bytes"),
            size("memory_in_bytes"),
        ]
    }
}

/// Returns the width of the terminal in columns, or `None` if standard output is not a terminal.
/// The table then has all columns.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Aligns columns to their cells. The last columns are omitted if they do not fit in `terminal` columns.
fn align(rows: &[Vec<String>], terminal: Option<usize>) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).map(|c| width(c).unwrap_or(0)).collect();
    let ends = widths.iter().scan(0, |end, width| {
        *end += width + GAP;
        Some(*end - GAP)
    });
    let shown = ends
        .take_while(|end| terminal.is_none_or(|terminal| *end <= terminal))
        .count();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).take(shown).enumerate();
        let cells = cells.map(|(nth, (cell, width))| {
            if nth < 2 {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Headings of the columns, the most important first.
const HEAD: [&str; 13] = [
    "PEER", "STATE", "SESSIONS", "OUT/S", "IN/S", "OUT", "IN", "RESENT", "HELD", "SLABS", "CREDIT",
    "MEM OUT", "MEM IN",
];
/// Blanks between columns.
const GAP: usize = 2;
/// Escape sequence that moves the cursor to the corner and clears the screen.
const CLEAR: &[u8] = b"\x1b[H\x1b[J";
const SECOND: Duration = Duration::from_secs(1);
/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn look(link: &Value) -> StatusReading {
        let line = json!({ "links": [link] }).to_string();
        StatusReading::read(Instant::ZERO, &line).unwrap()
    }

    #[test]
    fn status_table_fits_the_terminal() {
        let link = json!({
            "peer": "gateway.a-long-name.example.org:4810", "connected": true, "sessions": 65_536,
            "bytes_out": 999_999_999_999_u64, "bytes_in": 999_999_999_999_u64, "slabs": 123_456_789,
            "datagrams_resent": 1_234_567, "credit_pages": 262_144, "memory_out_bytes": 536_870_912,
        });
        let look = look(&link);
        for terminal in [20, 40, 80, 120, 200] {
            for line in look.table(Some(&look), Some(terminal)).lines() {
                assert!(line.chars().count() <= terminal, "{terminal}: {line}");
            }
        }
        let narrow = look.table(None, Some(80));
        assert!(
            narrow.contains("SESSIONS") && narrow.contains("OUT/S"),
            "{narrow}"
        );
        assert!(look.table(None, None).contains("MEM IN"), "a file has all");
    }

    #[test]
    fn refused_gateway_is_shown_as_refused() {
        let state = |connected, refused| {
            let link = json!({"peer": "b", "connected": connected, "refused": refused});
            look(&link)
                .table(None, None)
                .lines()
                .nth(1)
                .unwrap()
                .to_owned()
        };
        assert!(state(false, true).contains("refused"));
        assert!(state(false, false).contains("down"));
        assert!(state(true, false).contains("up"));
    }
}
