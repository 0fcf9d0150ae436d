//! Copies to a daemon whose root is on the disk.
//!
//! After a cut, each file with its final name is complete: the new version, or the old one if there
//! was one. Files that a successful command copied exist, and files that it deleted do not exist.
//! Repeating the command completes the copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lighthaul_base::Rng;
use rustix::fs::{AtFlags, CWD};

use super::program::{Program, Server};
use super::tree::{self, Tree, compare, differ};
use crate::trial::{Promises, Scenario};

/// Kind of copy.
#[derive(Clone, Debug)]
pub struct CopyKind {
    /// Number of files large enough to be resumed.
    pub large: u64,
    /// Number of small files.
    pub small: u64,
    /// Additional options of the command.
    pub options: &'static [&'static str],
    /// True if the target has an older version of the tree.
    pub replaces: bool,
    /// True to kill both sides in the middle, and to repeat the command.
    pub interrupts: bool,
    /// True to remove the copy at the end.
    pub removes: bool,
    /// Position of the disk in the target.
    pub position: DiskPosition,
}

/// Position of the disk in the target of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPosition {
    /// The target is a directory on the disk.
    Above,
    /// The disk is mounted inside the target, which is on another disk.
    Nested,
}

/// Scenario of a copy to the disk.
#[derive(Debug)]
pub struct Copies {
    program: Program,
    kind: CopyKind,
    seed: u64,
    /// Tree in the target before the copy.
    old: Tree,
    /// Tree of the source.
    new: Tree,
}

impl Copies {
    /// Creates a copy of the given kind, with a tree from `seed`.
    pub const fn new(program: Program, kind: CopyKind, seed: u64) -> Self {
        Self {
            program,
            kind,
            seed,
            old: Tree::new(),
            new: Tree::new(),
        }
    }

    fn is_nested(&self) -> bool {
        self.kind.position == DiskPosition::Nested
    }

    fn source(&self) -> PathBuf {
        self.program.aside.join("source")
    }

    fn config(&self) -> PathBuf {
        self.program.aside.join("config")
    }

    /// Returns the directory that the daemon serves, and the name of the target in it.
    fn root(&self, disk: &Path) -> (PathBuf, &'static str) {
        match disk.parent().zip(disk.file_name()) {
            Some((parent, _)) if self.is_nested() => (parent.join("root"), "tree"),
            _ => (disk.to_owned(), "tree"),
        }
    }

    fn target(&self, disk: &Path) -> PathBuf {
        if self.is_nested() {
            return disk.to_owned();
        }
        disk.join("tree")
    }

    /// Starts the daemon. Returns it with its address.
    fn serve(&self, disk: &Path) -> Result<(Server, String), String> {
        self.program
            .serve_folder(&self.config(), &self.root(disk).0)
    }

    fn words(&self, disk: &Path, address: &str, rate: &str) -> Vec<String> {
        let source = format!("{}/", self.source().display());
        let target = format!("lh://{address}/{}", self.root(disk).1);
        let mut words = vec!["cp".to_owned(), "--json".to_owned(), "-H".to_owned()];
        words.extend(["--rate", rate, "--retries", "0"].map(ToOwned::to_owned));
        words.extend(self.kind.options.iter().map(|word| (*word).to_owned()));
        words.extend([source, target]);
        words
    }

    fn copy(&self, disk: &Path, address: &str) -> Result<(), String> {
        let words = self.words(disk, address, "2Gb/s");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = self.program.run(&self.config(), &words)?;
        if said.contains("\"verified\":true") {
            Ok(())
        } else {
            Err("the copy succeeded but did not report that it is verified".to_owned())
        }
    }

    /// Kills both sides of a copy in the middle.
    fn interrupt(&self, disk: &Path) -> Result<(), String> {
        let (mut server, address) = self.serve(disk)?;
        let words = self.words(disk, &address, "400Mb/s");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut copy = self.program.command(&self.config(), &words);
        copy.stdout(Stdio::null()).stderr(Stdio::null());
        let copy = copy.spawn().map_err(|why| why.to_string())?;
        let pause = Duration::from_millis(150 + Rng::new(self.seed).below(600));
        sleep(pause);
        server.kill();
        // The copy may or may not have ended by then.
        let ended = copy.wait_with_output();
        ended.map(drop).map_err(|why| why.to_string())
    }

    fn remove(&self, disk: &Path, address: &str) -> Result<(), String> {
        let place = format!("lh://{address}/{}", self.root(disk).1);
        self.program
            .run(&self.config(), &["rm", "-r", &place])
            .map(drop)
    }

    /// Returns true if the copy removes entries that are only in the target.
    fn deletes(&self) -> bool {
        self.kind.options.contains(&"--delete")
    }

    /// Checks after a cut that each entry is in its old or its new version, and that no old entry is
    /// lost.
    fn either(&self, found: &Tree) -> Result<(), String> {
        let mut kept = self.old.keys();
        let lost = kept.find(|path| {
            let is_kept = !self.deletes() || self.new.contains_key(*path);
            is_kept && !found.contains_key(*path)
        });
        if let Some(path) = lost {
            return Err(format!("{} is lost", path.display()));
        }
        for (path, look) in found {
            let is_dir = look.mode & 0o170_000 == 0o040_000;
            if is_dir || self.grows(path, look)? {
                continue;
            }
            let is = |tree: &Tree| {
                let expected = tree.get(path)?;
                // Hard links are created one by one.
                let names = look.names;
                Some(differ(
                    look,
                    &tree::EntryState {
                        names,
                        ..expected.clone()
                    },
                ))
            };
            match (is(&self.old), is(&self.new)) {
                (Some(None), _) | (_, Some(None)) => {}
                (_, Some(Some(why))) | (Some(Some(why)), None) => {
                    return Err(format!("{}: {why}", path.display()));
                }
                (None, None) => return Err(format!("{} is in neither version", path.display())),
            }
        }
        Ok(())
    }

    /// Returns true for a file that is written under its final name, and may still be incomplete or empty. Fails if it
    /// looks complete, and is not.
    fn grows(&self, path: &Path, look: &tree::EntryState) -> Result<bool, String> {
        let is_file = look.mode & 0o170_000 == 0o100_000;
        let new = self.new.get(path).filter(|new| !new.content.is_empty());
        let Some(new) = new.filter(|_| is_file && self.kind.options.contains(&"--inplace")) else {
            return Ok(false);
        };
        let looks_complete = (look.time, look.content.len()) == (new.time, new.content.len());
        let old = self.old.get(path);
        let is_old = old.is_some_and(|old| look.content == old.content);
        if looks_complete && !is_old && look.content != new.content {
            return Err(format!("{} looks complete, but is not", path.display()));
        }
        Ok(true)
    }

    fn found(&self, disk: &Path) -> Result<Tree, String> {
        let target = self.target(disk);
        if !target.exists() {
            return Ok(Tree::new());
        }
        tree::read(&target).map_err(|why| format!("cannot read the target: {why}"))
    }

    /// Returns the expected target: the source, and the target's own entries unless `--delete`
    /// removes them.
    fn complete(&self) -> Tree {
        let mut tree = self.new.clone();
        if !self.deletes() {
            let only = self
                .old
                .iter()
                .filter(|(path, _)| !self.new.contains_key(*path));
            tree.extend(only.map(|(path, look)| (path.clone(), look.clone())));
        }
        tree
    }

    fn bind(&self, disk: &Path) -> Result<(), String> {
        if !self.is_nested() {
            return Ok(());
        }
        let place = self.root(disk).0.join("tree/nested");
        fs::create_dir_all(&place).map_err(|why| why.to_string())?;
        crate::rig::run(std::process::Command::new("umount").arg("-q").arg(&place)).ok();
        rustix::mount::mount_bind(disk, &place).map_err(|why| why.to_string())
    }

    fn unbind(&self, disk: &Path) -> Result<(), String> {
        if !self.is_nested() {
            return Ok(());
        }
        let place = self.root(disk).0.join("tree/nested");
        crate::rig::run(std::process::Command::new("umount").arg(&place))
    }

    fn recorded(&self, disk: &Path, promises: &mut Promises<'_>) -> Result<(), String> {
        if self.kind.interrupts {
            self.interrupt(disk)?;
        }
        let (_server, address) = self.serve(disk)?;
        self.copy(disk, &address)?;
        promises.note();
        if self.kind.removes {
            self.remove(disk, &address)?;
            promises.note();
        }
        Ok(())
    }
}

/// Sleeps for a time.
pub(super) fn sleep(pause: Duration) {
    let time = rustix::thread::Timespec {
        tv_sec: pause.as_secs().cast_signed(),
        tv_nsec: i64::from(pause.subsec_nanos()),
    };
    let _ = rustix::thread::nanosleep(&time);
}

impl Scenario for Copies {
    fn prepare(&mut self, disk: &Path) -> Result<(), String> {
        let failed = |why: std::io::Error| format!("cannot create the tree to copy: {why}");
        fs::remove_dir_all(&self.program.aside).ok();
        fs::create_dir_all(&self.program.aside).map_err(failed)?;
        let mut source = self.source();
        if self.is_nested() {
            source.push("nested");
        }
        tree::make(&source, self.kind.large, self.kind.small, self.seed).map_err(failed)?;
        let target = self.target(disk);
        if self.kind.replaces {
            let (large, small) = (self.kind.large, self.kind.small * 5 / 4);
            tree::make(&target, large, small, self.seed ^ 1).map_err(failed)?;
            self.old = tree::read(&target).map_err(failed)?;
        }
        self.new = tree::read(&source).map_err(failed)?;
        Ok(())
    }

    fn run(&mut self, disk: &Path, promises: &mut Promises<'_>) -> Result<(), String> {
        self.bind(disk)?;
        let done = self.recorded(disk, promises);
        self.unbind(disk)?;
        done
    }

    fn check(&mut self, disk: &Path, promised: usize) -> Result<(), String> {
        let found = self.found(disk)?;
        match promised {
            0 => self.either(&found),
            1 if self.kind.removes => Ok(()),
            1 => compare(
                &without_times_of_folders(found),
                &without_times_of_folders(self.complete()),
            ),
            _ => compare(&found, &Tree::new()),
        }
    }

    fn repeat(&mut self, disk: &Path) -> Result<(), String> {
        self.bind(disk)?;
        let copied = self
            .serve(disk)
            .and_then(|(_server, address)| self.copy(disk, &address));
        let found = self.found(disk);
        self.unbind(disk)?;
        copied?;
        let found = without_times_of_folders(found?);
        compare(&found, &without_times_of_folders(self.complete()))?;
        let left = left_over(&self.target(disk));
        left.map_or(Ok(()), |path| {
            Err(format!("{} is left over", path.display()))
        })
    }
}

/// Clears the times of directories, which change when entries are added.
fn without_times_of_folders(mut tree: Tree) -> Tree {
    for look in tree.values_mut() {
        if look.mode & 0o170_000 == 0o040_000 {
            look.time = (0, 0);
        }
    }
    tree
}

/// Searches for a temporary file after the end of a copy.
fn left_over(folder: &Path) -> Option<PathBuf> {
    for item in fs::read_dir(folder).ok()?.flatten() {
        let (path, name) = (item.path(), item.file_name());
        if name.as_encoded_bytes().starts_with(b".lighthaul-") || name == tree::PARTIAL {
            return Some(path);
        }
        let meta = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if rustix::fs::FileType::from_raw_mode(meta.st_mode).is_dir()
            && let Some(left) = left_over(&path)
        {
            return Some(left);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file with these bytes.
    fn file(content: &str) -> tree::EntryState {
        tree::EntryState {
            mode: 0o100_644,
            time: (1, 0),
            names: 1,
            content: content.into(),
        }
    }

    fn files(all: &[(&str, &str)]) -> Tree {
        let all = all.iter().map(|(path, content)| {
            let path = PathBuf::from(path);
            (path, file(content))
        });
        all.collect()
    }

    /// Returns a copy of `new` over `old`.
    fn copies(options: &'static [&'static str], old: &Tree, new: &Tree) -> Copies {
        let program = Program::new(Path::new("lighthaul"), Path::new("aside"));
        let kind = CopyKind {
            large: 0,
            small: 1,
            options,
            replaces: true,
            interrupts: false,
            removes: false,
            position: DiskPosition::Above,
        };
        let mut copies = Copies::new(program, kind, 1);
        (copies.old, copies.new) = (old.clone(), new.clone());
        copies
    }

    #[test]
    fn lost_old_files_are_found() {
        let old = files(&[("both", "old"), ("only", "old")]);
        let new = files(&[("both", "new"), ("more", "new")]);
        let found = |options, found: &[(&str, &str)]| {
            let checked = copies(options, &old, &new).either(&files(found));
            checked.err().unwrap_or_default()
        };
        let all: [&[&str]; 3] = [&[], &["--inplace"], &["--delete", "--yes"]];
        for options in all {
            for both in ["old", "new"] {
                assert_eq!(found(options, &[("both", both), ("only", "old")]), "");
            }
            let lost = found(options, &[("only", "old")]);
            assert_eq!(lost, "both is lost", "{options:?}");
        }
        let deleted = [("both", "new"), ("more", "new")];
        for (options, why) in all.into_iter().zip(["only is lost", "only is lost", ""]) {
            assert_eq!(found(options, &deleted), why, "{options:?}");
        }
    }

    #[test]
    fn file_in_place_may_be_incomplete_but_must_not_look_complete() {
        let (old, new) = (files(&[("x", "old")]), files(&[("x", "new"), ("y", "")]));
        let check = |found: &[(&str, &str)]| {
            let found = files(found);
            copies(&["--inplace"], &old, &new).either(&found)
        };
        for content in ["", "n", "old", "new", "newer"] {
            assert_eq!(check(&[("x", content)]), Ok(()), "{content}");
        }
        check(&[("x", "nld")]).unwrap_err();
        check(&[("x", "new"), ("y", "y")]).unwrap_err();
        check(&[("x", "new"), ("z", "")]).unwrap_err();
    }

    #[test]
    fn incomplete_files_are_found() {
        let (old, new) = (files(&[("x", "old")]), files(&[("x", "new")]));
        let found = files(&[("x", "nld")]);
        copies(&[], &old, &new).either(&found).unwrap_err();
        let more = files(&[("x", "new"), ("y", "new")]);
        copies(&[], &old, &new).either(&more).unwrap_err();
    }
}
