//! Output of entries as names, as long lines or as JSON, with bounded memory.
//!
//! [`EntryPrinter`] receives the parts of a reply and prints them. Entries are sorted by name,
//! unless there are more than memory should hold. Names are escaped, so that a foreign name cannot
//! control the terminal.

use std::collections::BTreeSet;
use std::io::{BufWriter, Stdout, Write, stdout};

use jiff::Timestamp;
use lighthaul_base::Size;
use lighthaul_base::escape::escape_json;
use lighthaul_files::request::{FileInfo, FileKind, FileReply};
use lighthaul_grammar::output::OutputArgs;
use lighthaul_session::error::{Code, Error};
use serde_json::{Map, Value, json};

use crate::output::name::{put, shown};
use crate::output::print::{output_failed, say};

/// Form of an entry on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Name alone.
    Names,
    /// One line with all metadata.
    Long {
        /// True for sizes with a unit.
        readable: bool,
    },
}

/// Printer of entries.
#[derive(Debug)]
pub(crate) struct EntryPrinter {
    form: Form,
    output: OutputArgs,
    out: BufWriter<Stdout>,
    /// Entries that wait to be sorted.
    held: Vec<FileInfo>,
    /// True if entries are shown in the order of names. False if there are too many to sort.
    sorted: bool,
    done: u64,
    failures: Failures,
}

/// Items that failed.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u64,
    codes: BTreeSet<u8>,
}

impl Failures {
    /// Reports a failure. Returns its event, if `json` is true.
    pub(super) fn add(&mut self, code: u8, text: &str, json: bool) -> Option<Value> {
        self.count += 1;
        self.codes.insert(code);
        say(&format!("lighthaul: {text}"));
        json.then(|| json!({"v": 1, "type": "error", "code": code, "text": text}))
    }

    /// Returns the event for the end, when `done` items were done.
    pub(super) fn end(&self, done: u64) -> Value {
        json!({"v": 1, "type": "end", "entries": done, "failures": self.count})
    }

    /// Returns the number of failures.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the exit status: the common code of all failures, or that of partial failure.
    pub(super) fn status(&self, done: u64) -> u8 {
        let mut codes = self.codes.iter();
        match (codes.next(), codes.next()) {
            (None, _) => 0,
            (Some(code), None) if done == 0 => *code,
            _ => Code::Partial as u8,
        }
    }
}

impl EntryPrinter {
    /// Returns a printer for `form`. `sorted` sorts the entries of one reply.
    pub(crate) fn new(form: Form, output: OutputArgs, sorted: bool) -> Self {
        Self {
            form,
            output,
            out: BufWriter::new(stdout()),
            held: Vec::new(),
            sorted,
            done: 0,
            failures: Failures::default(),
        }
    }

    /// Prints a part of a reply.
    pub(crate) fn take(&mut self, answer: FileReply) -> Result<(), Error> {
        match answer {
            FileReply::Listed { items } => {
                self.held.extend(items);
                self.sorted &= self.held.len() <= SORTED_MAX;
                if !self.sorted {
                    self.release()?;
                }
            }
            // only asked for by lists of hashes
            FileReply::Hashed { .. } | FileReply::Unreadable { .. } | FileReply::Busy { .. } => {}
            FileReply::Failed { code, why } => {
                if let Some(event) = self.failures.add(code, &why, self.output.json) {
                    self.line_json(&event)?;
                }
            }
            FileReply::Done { done } => {
                self.done += done;
                if self.sorted {
                    self.held.sort_by(|a, b| a.path.cmp(&b.path));
                }
                self.release()?;
            }
        }
        Ok(())
    }

    /// Prints the part of a reply that arrived before `error`, and reports the error.
    pub(crate) fn fail(&mut self, error: &Error) -> Result<(), Error> {
        self.release()?;
        self.take(FileReply::Failed {
            code: error.code() as u8,
            why: error.text(),
        })
    }

    /// Ends the output. Returns the exit status.
    pub(crate) fn finish(mut self) -> Result<u8, Error> {
        if self.output.json {
            self.line_json(&self.failures.end(self.done))?;
        }
        self.out.flush().map_err(output_failed)?;
        Ok(self.failures.status(self.done))
    }

    fn release(&mut self) -> Result<(), Error> {
        for listed in std::mem::take(&mut self.held) {
            match (self.output.json, self.form) {
                (true, _) => self.line_json(&event(&listed))?,
                (false, Form::Names) => self.line(&shown(&listed.path))?,
                (false, Form::Long { readable }) => self.line(&long(&listed, readable))?,
            }
        }
        Ok(())
    }

    fn line_json(&mut self, event: &Value) -> Result<(), Error> {
        self.line(&escape_json(&event.to_string()))
    }

    fn line(&mut self, text: &str) -> Result<(), Error> {
        writeln!(self.out, "{text}").map_err(output_failed)
    }
}

fn event(listed: &FileInfo) -> Value {
    let mut event = Map::new();
    event.insert("v".into(), 1.into());
    event.insert("type".into(), "entry".into());
    put(&mut event, "path", &listed.path);
    let kind = match &listed.kind {
        FileKind::File => "file",
        FileKind::Folder => "directory",
        FileKind::Link(_) => "link",
        FileKind::Other => "other",
    };
    event.insert("kind".into(), kind.into());
    if let FileKind::Link(says) = &listed.kind {
        put(&mut event, "target", says);
    }
    event.insert("size".into(), listed.size.into());
    event.insert("mode".into(), format!("{:04o}", listed.mode).into());
    event.insert("user".into(), listed.user.into());
    event.insert("group".into(), listed.group.into());
    event.insert("mtime".into(), time(listed, true).into());
    event.into()
}

fn long(listed: &FileInfo, readable: bool) -> String {
    let says = match &listed.kind {
        FileKind::Link(says) => format!(" -> {}", shown(says)),
        FileKind::File | FileKind::Folder | FileKind::Other => String::new(),
    };
    let size = if readable {
        Size(listed.size).to_string()
    } else {
        listed.size.to_string()
    };
    format!(
        "{} {:>6} {:>6} {size:>14} {:>20} {}{says}",
        letters(listed),
        listed.user,
        listed.group,
        time(listed, false),
        shown(&listed.path),
    )
}

/// Returns the modification time by RFC 3339 in UTC, since hosts are in different time zones.
fn time(listed: &FileInfo, exact: bool) -> String {
    let nanos = if exact { listed.nanos } else { 0 };
    let nanos = i32::try_from(nanos).unwrap_or(0);
    match Timestamp::new(listed.seconds, nanos) {
        Ok(time) => time.to_string(),
        Err(_) => format!("@{}", listed.seconds),
    }
}

/// Returns type and permissions in the notation of `ls`.
fn letters(listed: &FileInfo) -> String {
    let kind = match listed.kind {
        FileKind::File => '-',
        FileKind::Folder => 'd',
        FileKind::Link(_) => 'l',
        FileKind::Other => '?',
    };
    let mut text = String::from(kind);
    for (shift, special, mark) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = listed.mode >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (listed.mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => mark,
            (true, false) => mark.to_ascii_uppercase(),
        });
    }
    text
}

/// Maximum number of entries that are sorted.
const SORTED_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_shown_as_in_ls() {
        for (kind, mode, text) in [
            (FileKind::File, 0o644, "-rw-r--r--"),
            (FileKind::Folder, 0o1777, "drwxrwxrwt"),
            (FileKind::Link(Vec::new()), 0o777, "lrwxrwxrwx"),
            (FileKind::File, 0o6644, "-rwSr-Sr--"),
            (FileKind::File, 0o4755, "-rwsr-xr-x"),
            (FileKind::Other, 0, "?---------"),
        ] {
            let listed = FileInfo {
                path: Vec::new(),
                kind,
                size: 0,
                mode,
                user: 0,
                group: 0,
                seconds: -1,
                nanos: 0,
            };
            assert_eq!(letters(&listed), text);
            assert_eq!(time(&listed, false), "1969-12-31T23:59:59Z");
        }
    }
}
