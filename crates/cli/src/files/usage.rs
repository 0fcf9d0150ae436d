//! Sums of the sizes of files, for whole directories (`lighthaul du`).
//!
//! `UsagePrinter` takes the parts of a recursive list and adds up sizes in bytes. A directory down
//! to `--max-depth` has a sum of its own, which includes everything below. This relies on the order
//! of the list: a directory precedes its contents. Sizes are lengths of files, not allocated
//! blocks, and a file with several names counts each time.

use std::collections::BTreeMap;

use lighthaul_base::Size;
use lighthaul_files::request::{FileInfo, FileKind, FileReply};
use lighthaul_grammar::output::OutputArgs;
use lighthaul_session::error::Error;
use serde_json::{Map, Value};

use crate::files::show::Failures;
use crate::output::name::{put, shown};
use crate::output::print::{print, print_json};

/// Bytes and items of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    bytes: u64,
    files: u64,
    directories: u64,
}

/// Printer of the sizes of directories.
#[derive(Debug)]
pub(crate) struct UsagePrinter {
    output: OutputArgs,
    sums: Sums,
    done: u64,
    failures: Failures,
    /// Failures at earlier places.
    failed_before: u64,
}

/// Sums of one place.
#[derive(Debug, Default)]
struct Sums {
    /// Depth to which directories have sums of their own.
    max_depth: usize,
    total: Usage,
    /// Sums by path, relative to the place.
    folders: BTreeMap<Vec<u8>, Usage>,
}

impl Sums {
    fn add(&mut self, item: &FileInfo) {
        let is_folder = item.kind == FileKind::Folder;
        let add = |usage: &mut Usage| {
            if is_folder {
                usage.directories += 1;
            } else if item.kind == FileKind::File {
                usage.bytes = usage.bytes.saturating_add(item.size);
                usage.files += 1;
            }
        };
        add(&mut self.total);
        let slashes = item.path.iter().enumerate();
        let slashes = slashes.filter(|(_, octet)| **octet == b'/');
        for (end, _) in slashes.take(self.max_depth) {
            if let Some(folder) = self.folders.get_mut(&item.path[..end]) {
                add(folder);
            }
        }
        let depth = item.path.split(|octet| *octet == b'/').count();
        if is_folder && depth <= self.max_depth {
            self.folders.insert(item.path.clone(), Usage::default());
        }
    }
}

impl UsagePrinter {
    /// Returns a printer of directories down to `max_depth` below each place.
    pub(crate) fn new(output: OutputArgs, max_depth: usize) -> Self {
        Self {
            output,
            sums: Sums {
                max_depth,
                ..Sums::default()
            },
            done: 0,
            failures: Failures::default(),
            failed_before: 0,
        }
    }

    /// Adds a part of a list.
    pub(crate) fn take(&mut self, part: FileReply) {
        match part {
            FileReply::Listed { items } => items.iter().for_each(|item| self.sums.add(item)),
            FileReply::Failed { code, why } => {
                if let Some(event) = self.failures.add(code, &why, self.output.json) {
                    print_json(&event);
                }
            }
            FileReply::Done { done } => self.done += done,
            FileReply::Hashed { .. } | FileReply::Unreadable { .. } | FileReply::Busy { .. } => {}
        }
    }

    /// Reports the error that ended a reply.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.take(FileReply::Failed {
            code: error.code() as u8,
            why: error.text(),
        });
    }

    /// Prints the sums of a place, which the user wrote as `named`. A place that could not be listed has none.
    pub(crate) fn end(&mut self, named: &str) {
        let max_depth = self.sums.max_depth;
        let fresh = Sums {
            max_depth,
            ..Sums::default()
        };
        let sums = std::mem::replace(&mut self.sums, fresh);
        let failures = self.failures.count();
        let has_failed = failures > std::mem::replace(&mut self.failed_before, failures);
        if has_failed && sums.total == Usage::default() {
            return;
        }
        let named = named.as_bytes();
        for (below, usage) in &sums.folders {
            let named = named.strip_suffix(b"/").unwrap_or(named);
            self.line(&[named, b"/", below].concat(), usage);
        }
        self.line(named, &sums.total);
    }

    /// Ends the output. Returns the exit status.
    pub(crate) fn finish(&self) -> u8 {
        if self.output.json {
            print_json(&self.failures.end(self.done));
        }
        self.failures.status(self.done)
    }

    fn line(&self, path: &[u8], usage: &Usage) {
        if !self.output.json {
            let size = Size(usage.bytes).to_string();
            let noun = if usage.files == 1 { "file" } else { "files" };
            let count = format!("{} {noun}", usage.files);
            return print(&format!("{size:>11} {count:>14}  {}", shown(path)));
        }
        let mut event = Map::new();
        event.insert("v".into(), 1.into());
        event.insert("type".into(), "usage".into());
        put(&mut event, "path", path);
        event.insert("bytes".into(), usage.bytes.into());
        event.insert("files".into(), usage.files.into());
        event.insert("directories".into(), usage.directories.into());
        print_json(&Value::from(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(path: &str, kind: FileKind, size: u64) -> FileInfo {
        FileInfo {
            path: path.into(),
            kind,
            size,
            mode: 0o644,
            user: 0,
            group: 0,
            seconds: 0,
            nanos: 0,
        }
    }

    #[test]
    fn sums_include_all_items_below_the_directory() {
        let sums = |max_depth| {
            let mut sums = Sums {
                max_depth,
                ..Sums::default()
            };
            let link = FileKind::Link(b"x".to_vec());
            for (path, kind, size) in [
                ("x", FileKind::File, 1),
                ("a", FileKind::Folder, 4096),
                ("a/y", FileKind::File, 10),
                ("a/b", FileKind::Folder, 4096),
                ("a/b/z", FileKind::File, 100),
                ("a/b/l", link, 7),
                ("ab", FileKind::Folder, 4096),
                ("ab/w", FileKind::File, u64::MAX),
            ] {
                sums.add(&item(path, kind, size));
            }
            let folders = sums.folders.iter();
            let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
            let folders =
                folders.map(|(path, sum)| (text(path), sum.bytes, sum.files, sum.directories));
            (sums.total, folders.collect::<Vec<_>>())
        };
        let total = Usage {
            bytes: u64::MAX,
            files: 4,
            directories: 3,
        };
        assert_eq!(sums(0), (total, vec![]));
        let of =
            |path: &str, bytes, files, directories| (path.to_owned(), bytes, files, directories);
        let first = [of("a", 110, 2, 1), of("ab", u64::MAX, 1, 0)];
        assert_eq!(sums(1), (total, first.to_vec()));
        let second = [first[0].clone(), of("a/b", 100, 1, 0), first[1].clone()];
        assert_eq!(sums(2), (total, second.to_vec()));
    }
}
