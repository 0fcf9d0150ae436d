//! The command `lighthaul verify`: compares files with a list of hashes.
//!
//! The list is a manifest, the events of a copy, or the output of tools such as `sha256sum`. Files
//! are read here or by the other host, and each line gets one verdict. The exit status is 12 if a
//! file differs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use lighthaul_base::counted;
use lighthaul_files::hash;
use lighthaul_files::sums::file_sums::{FileSums, compute};
use lighthaul_files::sums::line::Sum;
use lighthaul_files::sums::pool::{self, Consumer};
use lighthaul_files::sums::walk::Walk;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::folder::leaves_root;
use lighthaul_grammar::sums::Verify;
use lighthaul_remote::place::Place;
use lighthaul_session::error::{Code, Error, FileAction};

use super::hash_kind::hash_kind;
use super::remote::{self, RemoteSums};
use super::show::SumsPrinter;
use super::workers::workers;
use crate::error::{Fault, usage};
use crate::output::print::say;

/// Compares files with a list. The exit status is 12 if a file differs.
pub(crate) fn run(args: &Verify) -> Result<u8, Error> {
    let place = Place::parse(&args.dir)?;
    let input: Box<dyn Read + Send> = if args.manifest.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = File::open(&args.manifest)
            .map_err(|e| Error::file(FileAction::Open, &args.manifest, &e))?;
        Box::new(file)
    };
    let bytes = AtomicU64::new(0);
    let mut checker = Checker {
        printer: SumsPrinter::new(args.crew, &bytes),
        extra: 0,
    };
    let lines = Lines {
        input: BufReader::new(input),
        number: 0,
        kind: args.hash.map(hash_kind),
    };
    if let Place::Here(_) = place {
        let dir = Path::new(OsStr::from_bytes(place.path()));
        check_here(dir, args, lines, &mut checker, &bytes)?;
    } else {
        check_remote(&place, args, lines, &mut checker)?;
    }
    let printer = &mut checker.printer;
    if printer.files == 0 && printer.failures == 0 {
        let text = format!("{} lists no files", args.manifest.display());
        return Err(usage(text));
    }
    printer.finish()?;
    if !printer.json {
        let (files, failures) = (printer.files, printer.failures);
        let extra = match checker.extra {
            0 => String::new(),
            extra => format!(", {extra} not in the list"),
        };
        let files = counted(files, "file", "files");
        say(&format!("{files}, {failures} not as listed{extra}"));
    }
    Ok(if printer.failures == 0 {
        0
    } else {
        Code::Integrity as u8
    })
}

/// Compares the files below `dir` on this host.
fn check_here<R: Read>(
    dir: &Path,
    args: &Verify,
    lines: Lines<R>,
    checker: &mut Checker<'_>,
    bytes: &AtomicU64,
) -> Result<(), Error> {
    let open = |e| Error::file(FileAction::Open, dir, &e);
    let access = FileAccess::beneath(dir).map_err(open)?;
    let mut listed = BTreeSet::new();
    let lines = lines.inspect(|line| {
        if let Line::Sum(sum) = line {
            listed.insert(plain(&sum.path));
        }
    });
    let compare = |line: Line| match line {
        Line::Sum(sum) => {
            let path = Path::new(OsStr::from_bytes(&sum.path));
            let taken = access
                .read(path)
                .and_then(|mut file| compute(&mut file, &sum.wanted, bytes));
            let taken = taken.map_err(|error| Problem::of(&error));
            Outcome::Looked(sum, taken)
        }
        Line::Malformed(number) => Outcome::Malformed(number),
        Line::Unreadable(error) => Outcome::Unreadable(error),
    };
    pool::run(lines, workers(args.crew), compare, checker)?;
    // directories that cannot be read have no files to name
    for path in Walk::new(&access).map_err(open)?.flatten() {
        let path = path.as_os_str().as_bytes();
        if !listed.contains(path) {
            checker.take_extra(path)?;
        }
    }
    Ok(())
}

/// Compares the files at a place on another host, which reads them.
fn check_remote<R: Read>(
    place: &Place,
    args: &Verify,
    lines: Lines<R>,
    checker: &mut Checker<'_>,
) -> Result<(), Error> {
    let mut listed: BTreeMap<Vec<u8>, Vec<Sum>> = BTreeMap::new();
    let mut kinds = BTreeSet::new();
    for line in lines {
        match line {
            Line::Sum(sum) if sum.wanted.crc128 => {
                let text = "the list has crc128, which another host does not compute: use a list with another hash";
                return Err(usage(text));
            }
            Line::Sum(sum) => {
                kinds.extend(sum.wanted.hashes.iter().copied());
                listed.entry(plain(&sum.path)).or_default().push(sum);
            }
            Line::Malformed(number) => checker.take(Outcome::Malformed(number))?,
            Line::Unreadable(error) => checker.take(Outcome::Unreadable(error))?,
        }
    }
    let kinds = kinds.into_iter().collect();
    remote::hash(place, &args.via, kinds, |part| {
        checker.tick();
        let (path, taken) = match part {
            RemoteSums::File(path, taken) => (path, taken),
            RemoteSums::Failed(_, why) => {
                checker.printer.warn(&why);
                return Ok(());
            }
        };
        let Some(sums) = listed.remove(&path) else {
            return checker.take_extra(&path);
        };
        sums.into_iter().try_for_each(|sum| {
            let taken = taken.clone().map_err(|why| Problem("unreadable", why));
            checker.take(Outcome::Looked(sum, taken))
        })
    })?;
    for sum in listed.into_values().flatten() {
        checker.take(Outcome::Looked(sum, Err(Problem::missing())))?;
    }
    Ok(())
}

/// Returns a path without parts that lead nowhere, as in `./a`.
fn plain(path: &[u8]) -> Vec<u8> {
    let path: PathBuf = Path::new(OsStr::from_bytes(path)).components().collect();
    let path = path.strip_prefix(".").unwrap_or(&path);
    path.as_os_str().as_bytes().to_vec()
}

/// Content of a line of the list.
enum Line {
    Sum(Sum),
    Malformed(u64),
    Unreadable(io::Error),
}

/// Reason why a file was not compared: one word, and a sentence.
struct Problem(&'static str, String);

impl Problem {
    fn missing() -> Self {
        Self("missing", "it is missing".to_owned())
    }

    fn of(error: &io::Error) -> Self {
        if error.kind() == ErrorKind::NotFound {
            return Self::missing();
        }
        let text = if leaves_root(error) {
            "it is outside the directory".to_owned()
        } else {
            error.to_string()
        };
        Self("unreadable", text)
    }
}

/// Result of a comparison.
enum Outcome {
    Looked(Sum, Result<FileSums, Problem>),
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

/// Returns true for an event that is not about a file, such as the summary at the end.
fn is_other_event(line: &[u8]) -> bool {
    line.starts_with(b"{")
        && serde_json::from_slice::<serde_json::Value>(line)
            .is_ok_and(|event| event["v"] == 1 && event.get("digest").is_none())
}

struct Checker<'a> {
    printer: SumsPrinter<'a>,
    /// Files that are not in the list.
    extra: u64,
}

impl Checker<'_> {
    /// Names a file that is not in the list.
    fn take_extra(&mut self, path: &[u8]) -> Result<(), Error> {
        self.extra += 1;
        self.printer
            .name(path, "extra", "the list does not have it")
    }
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
            Err(Problem(problem, text)) => (problem, text),
        };
        self.printer.fail(&sum.path, problem, &text)
    }

    fn tick(&mut self) {
        self.printer.tick();
    }
}

/// Maximum length of a line: a path with each octet escaped, and the digits.
const LINE_BYTES_MAX: u64 = 64 << 10;
