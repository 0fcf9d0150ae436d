//! `lighthaul gateway status`: what a gateway shows on its board, as a table or as it is.

use std::io::{IsTerminal, Read, Write, stdout};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Size};
use lighthaul_io::clock::Clock;
use lighthaul_transfer::error::{Code, Error};
use serde_json::Value;

use super::args::Status;
use crate::places;
use crate::print::print;

/// Shows how a gateway is, once or until somebody stops it.
pub(crate) fn run(args: &Status) -> Result<(), Error> {
    let path = args.socket.clone().unwrap_or_else(places::gateway_socket);
    let clock = Clock::start();
    let mut before = None;
    loop {
        let line = ask(&path)?;
        let look = Look::read(clock.now(), &line)?;
        if args.json {
            print(line.trim_end());
        } else {
            if stdout().is_terminal() && !args.once {
                stdout().write_all(CLEAR).ok();
            }
            print(&look.table(before.as_ref()));
        }
        if args.once || stdout().flush().is_err() {
            return Ok(());
        }
        before = Some(look);
        thread::park_timeout(SECOND);
    }
}

fn ask(path: &Path) -> Result<String, Error> {
    let failed = |error| {
        let what = "no gateway shows its state here (--socket says where else); cannot open";
        Error::file(Code::Network, what, path, &error)
    };
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut line = String::new();
    stream.read_to_string(&mut line).map_err(failed)?;
    Ok(line)
}

/// What was seen at one moment.
#[derive(Debug)]
struct Look {
    at: Instant,
    links: Vec<Value>,
}

impl Look {
    fn read(at: Instant, line: &str) -> Result<Self, Error> {
        let unclear = || Error::new(Code::Protocol, "what the gateway shows makes no sense");
        let event: Value = serde_json::from_str(line).map_err(|_| unclear())?;
        let links = event["links"].as_array().cloned().ok_or_else(unclear)?;
        Ok(Self { at, links })
    }

    /// A row for each link; rates are since the look before, if there was one.
    fn table(&self, before: Option<&Self>) -> String {
        let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
        for (nth, link) in self.links.iter().enumerate() {
            let earlier = before.and_then(|look| Some((look.at, look.links.get(nth)?)));
            let earlier = earlier.filter(|(_, earlier)| earlier["peer"] == link["peer"]);
            rows.push(self.row(link, earlier));
        }
        if self.links.is_empty() {
            return "no link yet".to_owned();
        }
        align(&rows)
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
        let state = if link["connected"] == true {
            "up"
        } else {
            "down"
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
            size("bytes_out"),
            speed("bytes_out"),
            size("bytes_in"),
            speed("bytes_in"),
            number("slabs").to_string(),
            number("slabs_held").to_string(),
            number("datagrams_resent").to_string(),
            number("credit_pages").to_string(),
            size("memory_out_bytes"),
            size("memory_in_bytes"),
        ]
    }
}

/// Columns as wide as what is in them.
fn align(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).map(|c| width(c).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
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

const HEAD: [&str; 13] = [
    "PEER", "STATE", "SESSIONS", "OUT", "OUT/S", "IN", "IN/S", "SLABS", "HELD", "RESENT", "CREDIT",
    "MEM OUT", "MEM IN",
];
/// The cursor in the corner, and nothing below.
const CLEAR: &[u8] = b"\x1b[H\x1b[J";
const SECOND: Duration = Duration::from_secs(1);
/// How long a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
