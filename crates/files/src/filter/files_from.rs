//! List of paths to copy, as `--files-from` reads it.
//!
//! [`FilesFrom`] reads plain paths, or the failure list of an earlier copy: events of JSON, one a
//! line, which [`failure_record`] writes. Each path is made relative to the source, without `.` and
//! empty names. A path with `..` is an error, so no path leads out of the source by its text. The
//! reader stops at the first error. It does not check that the paths exist.

use std::io::{BufRead, Read};

use lighthaul_base::{from_hex, to_hex};
use lighthaul_session::error::Error;
use serde::{Deserialize, Serialize};

use crate::error::Fault;

/// Separator of paths in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// Newline. Empty lines and lines that begin with `#` or `;` are ignored, as in rsync.
    Line,
    /// NUL (`-0`). All other octets belong to the path.
    Nul,
}

/// Reader of a list. Its paths are relative, have no `.` or `..`, and may name directories.
#[derive(Debug)]
pub struct FilesFrom<R> {
    reader: R,
    separator: Separator,
    /// Lines read so far.
    line: u64,
    failed: bool,
}

impl<R: BufRead> FilesFrom<R> {
    /// Creates a reader of the paths in `reader`, each ended by `separator`.
    pub fn new(reader: R, separator: Separator) -> Self {
        Self {
            reader,
            separator,
            line: 0,
            failed: false,
        }
    }

    /// Returns the next path, or none at the end.
    fn step(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let Some(line) = self.read()? else {
                return Ok(None);
            };
            self.line += 1;
            let path = match self.separator {
                Separator::Nul => Some(line),
                Separator::Line => self.parse_line(line)?,
            };
            if let Some(path) = path.filter(|path| !path.is_empty()) {
                return self.normalize(&path).map(Some);
            }
        }
    }

    /// Reads one line without its separator.
    fn read(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let end = match self.separator {
            Separator::Line => b'\n',
            Separator::Nul => 0,
        };
        let mut line = Vec::new();
        let mut bounded = (&mut self.reader).take(LINE_MAX);
        let count = bounded
            .read_until(end, &mut line)
            .map_err(Fault::ListUnreadable)?;
        if line.last() == Some(&end) {
            line.pop();
        } else if count as u64 == LINE_MAX {
            self.line += 1;
            return Err(
                self.invalid("it is longer than any path; use -0 if NULs separate the paths")
            );
        }
        Ok((count > 0).then_some(line))
    }

    /// Returns the path in a line, if any.
    fn parse_line(&self, mut line: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        match line.first() {
            None | Some(b'#' | b';') => Ok(None),
            Some(b'{') => match serde_json::from_slice::<Record>(&line) {
                Ok(record) if record.kind != "error" => Ok(None),
                Ok(record) => match record.octets() {
                    Some(path) => Ok(Some(path)),
                    None => Err(self.invalid("path_hex is not hexadecimal")),
                },
                // a path may begin with a brace
                Err(_) => Ok(Some(line)),
            },
            Some(_) => Ok(Some(line)),
        }
    }

    /// Returns `path` without empty names and `.`; a leading slash means the source. Rejects paths
    /// that could leave the source.
    fn normalize(&self, path: &[u8]) -> Result<Vec<u8>, Error> {
        if path.contains(&0) {
            return Err(self.invalid("it contains a NUL; use -0 if NULs separate the paths"));
        }
        let mut normal = Vec::with_capacity(path.len());
        for name in path.split(|octet| *octet == b'/') {
            match name {
                b"" | b"." => {}
                b".." => {
                    return Err(self.invalid("it contains ..; write it relative to the source"));
                }
                name => {
                    if !normal.is_empty() {
                        normal.push(b'/');
                    }
                    normal.extend_from_slice(name);
                }
            }
        }
        if normal.is_empty() {
            return Err(self.invalid("it names the whole source; copy that without a list"));
        }
        Ok(normal)
    }

    fn invalid(&self, why: &str) -> Error {
        Fault::ListEntry {
            line: self.line,
            why: why.to_owned(),
        }
        .into()
    }
}

impl<R: BufRead> Iterator for FilesFrom<R> {
    type Item = Result<Vec<u8>, Error>;

    /// Returns the next path. Nothing follows an error, since the list is valid as a whole or not
    /// at all.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}

/// Returns one line of a failure list, without its newline, in the format that [`FilesFrom`] reads.
pub fn failure_record(path: &[u8], error: &Error) -> String {
    let text = std::str::from_utf8(path).ok();
    let record = Record {
        version: 1,
        kind: "error".into(),
        code: error.code() as u8,
        text: error.text(),
        path: text.map(str::to_owned),
        path_hex: text.is_none().then(|| to_hex(path)),
    };
    serde_json::to_string(&record).unwrap_or_default()
}

/// Failure in JSON. A path that is not UTF-8 is in hexadecimal.
#[derive(Serialize, Deserialize)]
struct Record {
    #[serde(rename = "v")]
    version: u64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    code: u8,
    #[serde(default)]
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl Record {
    /// Returns the path: empty for an error without a path, none for invalid hexadecimal digits.
    fn octets(self) -> Option<Vec<u8>> {
        let Some(hex) = self.path_hex else {
            return Some(self.path.unwrap_or_default().into_bytes());
        };
        from_hex(&hex)
    }
}

/// Maximum number of octets of a line: a path of 4096 octets in hexadecimal and a sentence fit.
const LINE_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8], separator: Separator) -> Result<Vec<Vec<u8>>, Error> {
        FilesFrom::new(text, separator).collect()
    }

    #[test]
    fn lists_are_read_by_line_and_normalized() {
        let text = b"a\n\n# note\n; note\n./b//c/\r\n{brace}\n/last";
        let paths: [&[u8]; 4] = [b"a", b"b/c", b"{brace}", b"last"];
        assert_eq!(read(text, Separator::Line).unwrap(), paths);
        let paths: [&[u8]; 3] = [b"#a\nb", b"{\"v\":1}", b"c"];
        assert_eq!(
            read(b"#a\nb\0{\"v\":1}\0\0c\0", Separator::Nul).unwrap(),
            paths
        );
    }

    #[test]
    fn paths_outside_the_source_are_rejected_with_their_number() {
        for text in [
            "ok\n/../etc/passwd\n",
            "ok\na/../../b\n",
            "ok\n..\n",
            "ok\n./\n",
            "ok\na\0b\n",
        ] {
            let mut list = FilesFrom::new(text.as_bytes(), Separator::Line);
            assert_eq!(list.next(), Some(Ok(b"ok".to_vec())));
            let error = list.next().unwrap().unwrap_err();
            assert!(error.text().contains("entry 2"), "{error}");
            assert_eq!(list.next(), None);
        }
        assert!(read("x".repeat(1 << 20).as_bytes(), Separator::Line).is_err());
    }

    #[test]
    fn failure_list_of_an_earlier_copy_is_read() {
        let text = concat!(
            "{\"v\":1,\"type\":\"start\",\"entries\":3}\n",
            "{\"v\":1,\"type\":\"error\",\"path\":\"a/b\",\"code\":24,\"text\":\"it changed\"}\n",
            "{\"v\":1,\"type\":\"error\",\"code\":10,\"text\":\"the network failed\"}\n",
            "{\"v\":1,\"type\":\"error\",\"path_hex\":\"ff2f61\"}\n",
            "{\"v\":1,\"type\":\"summary\"}\n",
        );
        let paths: [&[u8]; 2] = [b"a/b", b"\xff/a"];
        assert_eq!(read(text.as_bytes(), Separator::Line).unwrap(), paths);
        let odd = b"{\"v\":1,\"type\":\"error\",\"path_hex\":\"f\"}";
        assert!(read(odd, Separator::Line).is_err());
    }

    proptest! {
        #[test]
        fn failed_path_is_read_back(names in prop::collection::vec(any::<u8>(), 1..40)) {
            let name: Vec<u8> = names.into_iter().filter(|octet| ![0, b'/', b'.'].contains(octet)).collect();
            prop_assume!(!name.is_empty());
            let line = failure_record(&name, &Fault::Vanished("a".into()).into());
            prop_assert_eq!(read(line.as_bytes(), Separator::Line), Ok(vec![name]));
        }

        #[test]
        fn paths_of_a_list_never_lead_out_of_the_source(text: Vec<u8>, nul: bool) {
            let separator = if nul { Separator::Nul } else { Separator::Line };
            for path in FilesFrom::new(text.as_slice(), separator).flatten() {
                prop_assert!(!path.starts_with(b"/") && !path.contains(&0));
                prop_assert!(path.split(|octet| *octet == b'/').all(|name| !matches!(name, b"" | b"." | b"..")));
            }
        }
    }
}
