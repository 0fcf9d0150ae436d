//! Small files that commands replace atomically. After a cut, each has one of its versions, none
//! older than that of the last successful command.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::program::Program;
use crate::trial::{Promises, Scenario};

/// Scenario of commands that replace files, one after another.
#[derive(Debug)]
pub struct Versions {
    program: Program,
    /// Arguments of each command.
    commands: Vec<Vec<String>>,
    /// Files that the commands change, relative to the disk.
    files: Vec<&'static str>,
    /// Contents of the files after each number of commands.
    history: Vec<Contents>,
}

/// Content of each file; `None` if it is missing.
type Contents = BTreeMap<&'static str, Option<Vec<u8>>>;

impl Versions {
    /// Creates the scenario of `commands`. `{disk}` stands for the path of the disk.
    pub fn new(program: Program, commands: Vec<Vec<String>>, files: Vec<&'static str>) -> Self {
        Self {
            program,
            commands,
            files,
            history: Vec::new(),
        }
    }

    fn contents(&self, disk: &Path) -> Contents {
        let read = |name: &&'static str| (*name, fs::read(disk.join(name)).ok());
        self.files.iter().map(read).collect()
    }

    fn say(&self, disk: &Path, words: &[String]) -> Result<(), String> {
        let disk_name = disk.to_string_lossy();
        let words = words.iter().map(|word| word.replace("{disk}", &disk_name));
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let config: PathBuf = disk.join("config");
        self.program.run(&config, &words).map(drop)
    }
}

impl Scenario for Versions {
    fn prepare(&mut self, disk: &Path) -> Result<(), String> {
        self.history = vec![self.contents(disk)];
        Ok(())
    }

    fn run(&mut self, disk: &Path, promises: &mut Promises<'_>) -> Result<(), String> {
        for words in self.commands.clone() {
            self.say(disk, &words)?;
            promises.note();
            self.history.push(self.contents(disk));
        }
        Ok(())
    }

    fn check(&mut self, disk: &Path, promised: usize) -> Result<(), String> {
        let found = self.contents(disk);
        for name in &self.files {
            let is = |versions: &[Contents]| versions.iter().any(|at| at[name] == found[name]);
            let next = (promised + 2).min(self.history.len());
            if is(&self.history[promised..next]) {
                continue;
            }
            let len = found[name].as_ref().map(Vec::len);
            let what = match len {
                None => "is missing".to_owned(),
                Some(len) if is(&self.history) => format!("has {len} bytes of an old version"),
                Some(len) => format!("has {len} bytes that no command wrote"),
            };
            return Err(format!("{name} {what} after {promised} commands"));
        }
        Ok(())
    }

    fn repeat(&mut self, disk: &Path) -> Result<(), String> {
        for words in self.commands.clone() {
            self.say(disk, &words)?;
        }
        let missing = self.files.iter().find(|name| !disk.join(name).exists());
        missing.map_or(Ok(()), |name| Err(format!("{name} is missing")))
    }
}
