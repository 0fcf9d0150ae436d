//! Files that the rules check.

use std::path::Path;
use std::{fs, io};

/// Files of the project, without built and fetched files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Files, sorted by path.
    pub(crate) files: Vec<Source>,
}

/// File of the project.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Path relative to the root, with slashes.
    pub(crate) path: String,
    /// Content; empty if it is not text.
    pub(crate) text: String,
}

impl Sources {
    /// Reads all files below `root`.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut sources = Self::default();
        sources.walk(root, "")?;
        sources.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(sources)
    }

    /// Creates a project of a few files, for tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let source = |(path, text): &(&str, &str)| Source {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self {
            files: files.iter().map(source).collect(),
        }
    }

    /// Returns the files whose paths end in `tail`.
    pub(crate) fn ending(&self, tail: &str) -> impl Iterator<Item = &Source> {
        self.files
            .iter()
            .filter(move |file| file.path.ends_with(tail))
    }

    /// Reports whether a file or directory exists at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.iter().any(|file| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn walk(&mut self, folder: &Path, above: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{above}{name}");
            if entry.file_type()?.is_dir() {
                if !NOT_OURS.contains(&name.as_str()) {
                    self.walk(&entry.path(), &format!("{path}/"))?;
                }
            } else {
                let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                self.files.push(Source { path, text });
            }
        }
        Ok(())
    }
}

impl Source {
    /// Returns the lines before the unit tests, with their numbers from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .take_while(|line| line.trim() != "#[cfg(test)]" || self.is_map())
            .enumerate()
            .map(|(nth, line)| (nth + 1, line))
    }

    /// Returns the file's name, without its directories.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Reports whether the file is `lib.rs` or `mod.rs`.
    pub(crate) fn is_map(&self) -> bool {
        ["lib.rs", "mod.rs"].contains(&self.name())
    }
}

const NOT_OURS: [&str; 6] = [
    ".git",
    "target",
    "corpus",
    "artifacts",
    "seeds",
    "node_modules",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_exclude_unit_tests() {
        let sources = Sources::of(&[("a.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {}\n")]);
        assert_eq!(sources.files[0].lines().count(), 2);
    }

    #[test]
    fn folders_of_files_exist() {
        let sources = Sources::of(&[("a/b/c.rs", "")]);
        assert!(sources.has("a/b/") && sources.has("a") && sources.has("a/b/c.rs"));
        assert!(!sources.has("a/b/c") && !sources.has("b"));
    }
}
