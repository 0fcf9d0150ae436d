//! The `lighthaul` command, and servers that it runs.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The `lighthaul` command, with a directory outside of the tested disk for its other files.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    /// Directory that is not affected by cuts.
    pub aside: PathBuf,
}

impl Program {
    /// Uses the command at `path`.
    pub fn new(path: &Path, aside: &Path) -> Self {
        Self {
            path: path.to_owned(),
            aside: aside.to_owned(),
        }
    }

    /// Creates a command with the arguments `words`, and with its configuration in `config`.
    pub fn command(&self, config: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(words).env("XDG_CONFIG_HOME", config);
        command.stdin(Stdio::null());
        command
    }

    /// Runs the command. Returns its standard output, or an error if it fails.
    pub fn run(&self, config: &Path, words: &[&str]) -> Result<String, String> {
        let output = self.command(config, words).output();
        printed(words, &output.map_err(|why| why.to_string())?)
    }

    /// Starts a daemon that serves `root` to the key of `config`. Returns it with its address.
    pub fn serve_folder(&self, config: &Path, root: &Path) -> Result<(Server, String), String> {
        let at = |name: &str| self.aside.join(name).to_string_lossy().into_owned();
        let (host, allowed) = (at("host_key"), at("allowed"));
        let key = self.run(config, &["key"])?;
        self.run(config, &["allow", key.trim(), "--allowed", &allowed])?;
        let root = root.to_string_lossy();
        let words = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--key",
            &host,
            "--allowed",
            &allowed,
            "--root",
            &root,
        ];
        let mut serve = self.command(config, &words);
        let (server, line) = self.serve(&mut serve, "listening on ")?;
        let address = line.split("listening on ").nth(1).unwrap_or_default();
        let address = address.split([' ', ',', ';']).next().unwrap_or_default();
        Ok((server, address.trim().to_owned()))
    }

    /// Starts a server, and waits for a line with `word` on its standard error. Returns the server
    /// and that line.
    pub fn serve(&self, command: &mut Command, word: &str) -> Result<(Server, String), String> {
        let child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut server = Server(child.map_err(|why| format!("cannot start a server: {why}"))?);
        let errors = server.0.stderr.take().ok_or("no standard error")?;
        let mut lines = BufReader::new(errors);
        let mut said = String::new();
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
            if line.contains(word) {
                std::thread::spawn(move || lines.read_to_end(&mut Vec::new()).ok());
                return Ok((server, line));
            }
            said.push_str(&line);
            line.clear();
        }
        Err(format!(
            "a server ended before it was ready: {}",
            said.trim()
        ))
    }
}

/// Returns the standard output of a successful command, or the error of a failed one.
pub fn printed(words: &[&str], output: &Output) -> Result<String, String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status;
    let first = words.first().copied().unwrap_or_default();
    Err(format!("lighthaul {first}: {code}: {}", said.trim()))
}

/// Process that is killed on drop.
#[derive(Debug)]
pub struct Server(pub Child);

impl Server {
    /// Kills the process immediately, as a power cut does, and waits for its end.
    pub fn kill(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
