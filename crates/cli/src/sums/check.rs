//! `lighthaul verify`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use lighthaul_files::hash;
use lighthaul_files::sums::file_sums::{FileSums, compute};
use lighthaul_files::sums::line::Sum;
use lighthaul_files::sums::pool::{self, Consumer};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::folder::leaves_root;
use lighthaul_grammar::sums::{Hash, Verify};
use lighthaul_session::error::{Code, Error, FileAction};

use super::show::SumsPrinter;
use super::workers::workers;
use crate::error::{Fault, usage};
use crate::output::print::say;

/// Compares files with a list. The exit status is 12 if a file differs.
pub(crate) fn run(args: &Verify) -> Result<u8, Error> {
    let access =
        FileAccess::beneath(&args.dir).map_err(|e| Error::file(FileAction::Open, &args.dir, &e))?;
    let input: Box<dyn Read + Send> = if args.manifest.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = File::open(&args.manifest)
            .map_err(|e| Error::file(FileAction::Open, &args.manifest, &e))?;
        Box::new(file)
    };
    let bytes = AtomicU64::new(0);
    let mut checker = Checker {
        printer: SumsPrinter::new(args.crew, args.output.json, &bytes),
    };
    let lines = Lines {
        input: BufReader::new(input),
        number: 0,
        kind: args.hash.map(Hash::kind),
    };
    let compare = |line: Line| match line {
        Line::Sum(sum) => {
            let path = Path::new(OsStr::from_bytes(&sum.path));
            let taken = access
                .read(path)
                .and_then(|mut file| compute(&mut file, &sum.wanted, &bytes));
            Outcome::Looked(sum, taken)
        }
        Line::Malformed(number) => Outcome::Malformed(number),
        Line::Unreadable(error) => Outcome::Unreadable(error),
    };
    pool::run(lines, workers(args.crew), compare, &mut checker)?;
    let printer = &mut checker.printer;
    if printer.files == 0 && printer.failures == 0 {
        let text = format!("{} lists no files", args.manifest.display());
        return Err(usage(text));
    }
    printer.finish()?;
    if !printer.json {
        let (files, failures) = (printer.files, printer.failures);
        say(&format!("{files} files, {failures} not as listed"));
    }
    Ok(if printer.failures == 0 {
        0
    } else {
        Code::Integrity as u8
    })
}

/// Content of a line of the list.
enum Line {
    Sum(Sum),
    Malformed(u64),
    Unreadable(io::Error),
}

/// Result of a comparison.
enum Outcome {
    Looked(Sum, io::Result<FileSums>),
    Malformed(u64),
    Unreadable(io::Error),
}

struct Lines<R> {
    input: BufReader<R>,
    number: u64,
    kind: Option<hash::HashKind>,
}

impl<R: Read> Iterator for Lines<R> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            let mut line = Vec::new();
            let mut bounded = self.input.by_ref().take(LINE_BYTES_MAX);
            match bounded.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Line::Unreadable(error)),
            }
            self.number += 1;
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() || line.starts_with(b"#") || is_other_event(line) {
                continue;
            }
            let sum = Sum::parse(line, self.kind);
            return Some(sum.map_or(Line::Malformed(self.number), Line::Sum));
        }
    }
}

/// Returns true for an event that is not about a file, such as the last one.
fn is_other_event(line: &[u8]) -> bool {
    line.starts_with(b"{")
        && serde_json::from_slice::<serde_json::Value>(line)
            .is_ok_and(|event| event["v"] == 1 && event.get("digest").is_none())
}

struct Checker<'a> {
    printer: SumsPrinter<'a>,
}

impl Consumer<Outcome> for Checker<'_> {
    type Error = Error;

    fn take(&mut self, outcome: Outcome) -> Result<(), Error> {
        self.printer.tick();
        let (sum, taken) = match outcome {
            Outcome::Looked(sum, taken) => (sum, taken),
            Outcome::Malformed(number) => {
                let text = format!("line {number} of the list is malformed");
                return self.printer.fail(b"", "malformed", &text);
            }
            Outcome::Unreadable(error) => {
                return Err(Fault::List(error).into());
            }
        };
        self.printer.files += 1;
        let (problem, text) = match taken {
            Ok(taken) => match sum.compare(&taken) {
                Ok(()) => return Ok(()),
                Err(text) => ("differs", text),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => {
                ("missing", "it is missing".to_owned())
            }
            Err(error) if leaves_root(&error) => {
                ("unreadable", "it is outside the directory".to_owned())
            }
            Err(error) => ("unreadable", error.to_string()),
        };
        self.printer.fail(&sum.path, problem, &text)
    }

    fn tick(&mut self) {
        self.printer.tick();
    }
}

/// Maximum length of a line: a path with each octet escaped, and the digits.
const LINE_BYTES_MAX: u64 = 64 << 10;
