//! Copies to a daemon that remove their source files.
//!
//! A source file disappears only when its copy is on the disk: after a cut, each file that was gone from the source
//! before it is complete in the target.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::copies::sleep;
use super::program::{Program, printed};
use super::tree::{self, Tree, differ};
use crate::trial::{Promises, Scenario};

/// Scenario of a tree that is moved to the disk.
#[derive(Debug)]
pub struct Moves {
    program: Program,
    seed: u64,
    /// Tree of the source.
    files: Tree,
    /// Files that were gone from the source when each promise was noted.
    moved: Vec<Vec<PathBuf>>,
}

impl Moves {
    /// Creates the scenario with a tree from `seed`.
    pub const fn new(program: Program, seed: u64) -> Self {
        Self {
            program,
            seed,
            files: Tree::new(),
            moved: Vec::new(),
        }
    }

    fn source(&self) -> PathBuf {
        self.program.aside.join("source")
    }

    /// Returns the files that are no longer in the source and in no promise.
    fn gone(&self) -> Vec<PathBuf> {
        let known = |path: &PathBuf| self.moved.iter().flatten().any(|moved| moved == path);
        let is_gone = |path: &&PathBuf| {
            !known(path) && fs::symlink_metadata(self.source().join(path)).is_err()
        };
        self.files.keys().filter(is_gone).cloned().collect()
    }

    /// Notes the files that have gone since the last promise.
    fn note(&mut self, promises: &mut Promises<'_>) {
        let gone = self.gone();
        if !gone.is_empty() {
            promises.note();
            self.moved.push(gone);
        }
    }

    /// Moves a new tree to the disk, and calls `look` until the command has ended.
    fn move_tree(&mut self, disk: &Path, mut look: impl FnMut(&mut Self)) -> Result<(), String> {
        let failed = |why: std::io::Error| format!("cannot create the tree to move: {why}");
        fs::remove_dir_all(self.source()).ok();
        tree::make(&self.source(), 1, 200, self.seed).map_err(failed)?;
        self.files = tree::read(&self.source()).map_err(failed)?;
        self.moved.clear();
        let config = self.program.aside.join("config");
        let (_server, address) = self.program.serve_folder(&config, disk)?;
        let source = format!("{}/", self.source().display());
        let target = format!("lh://{address}/tree");
        let words = [
            "cp",
            "-H",
            "--quiet",
            "--retries",
            "0",
            "--remove-source-files",
            &source,
            &target,
        ];
        let mut copy = self.program.command(&config, &words);
        copy.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut copy = copy.spawn().map_err(|why| why.to_string())?;
        while copy.try_wait().map_err(|why| why.to_string())?.is_none() {
            look(self);
            sleep(Duration::from_millis(2));
        }
        look(self);
        let output = copy.wait_with_output().map_err(|why| why.to_string())?;
        printed(&words, &output).map(drop)
    }

    fn found(disk: &Path) -> Result<Tree, String> {
        let target = disk.join("tree");
        if !target.exists() {
            return Ok(Tree::new());
        }
        tree::read(&target).map_err(|why| format!("cannot read the target: {why}"))
    }

    /// Checks that the moved files are complete in the target.
    fn have_moved(
        &self,
        found: &Tree,
        files: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<(), String> {
        for path in files {
            let path = path.as_ref();
            let look = found.get(path);
            let look = look.ok_or_else(|| format!("{} is lost", path.display()))?;
            // hard links are created one by one
            let expected = tree::EntryState {
                names: look.names,
                ..self.files[path].clone()
            };
            if let Some(why) = differ(look, &expected) {
                return Err(format!("{}: {why}", path.display()));
            }
        }
        Ok(())
    }
}

impl Scenario for Moves {
    fn prepare(&mut self, _disk: &Path) -> Result<(), String> {
        fs::create_dir_all(&self.program.aside).map_err(|why| why.to_string())
    }

    fn run(&mut self, disk: &Path, promises: &mut Promises<'_>) -> Result<(), String> {
        self.move_tree(disk, |moves| moves.note(promises))?;
        if self.moved.is_empty() {
            return Err("the command removed no source file".to_owned());
        }
        Ok(())
    }

    fn check(&mut self, disk: &Path, promised: usize) -> Result<(), String> {
        let found = Self::found(disk)?;
        let promised = self
            .moved
            .get(..promised)
            .ok_or("a promise without files")?;
        self.have_moved(&found, promised.iter().flatten())
    }

    /// Moves another tree of the same files.
    fn repeat(&mut self, disk: &Path) -> Result<(), String> {
        let mut again = Self::new(self.program.clone(), self.seed);
        again.move_tree(disk, |_| ())?;
        let found = Self::found(disk)?;
        let is_folder = |path: &&PathBuf| again.files[*path].mode & 0o170_000 == 0o040_000;
        let all = again.files.keys().filter(|path| !is_folder(path));
        again.have_moved(&found, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_incomplete_files_are_found() {
        let file = |content: &str| tree::EntryState {
            mode: 0o100_644,
            time: (1, 0),
            names: 1,
            content: content.into(),
        };
        let program = Program::new(Path::new("lighthaul"), Path::new("aside"));
        let mut moves = Moves::new(program, 1);
        let path = PathBuf::from("x");
        moves.files.insert(path.clone(), file("all"));
        let found = |content: &[&str]| {
            let files = content.iter().map(|content| (path.clone(), file(content)));
            moves
                .have_moved(&files.collect(), [&path])
                .err()
                .unwrap_or_default()
        };
        assert_eq!(found(&["all"]), "");
        assert_eq!(found(&[]), "x is lost");
        assert!(found(&["al"]).starts_with("x: "));
    }
}
