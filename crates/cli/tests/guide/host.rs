//! A test host with a shell: its own network, `/etc`, `/srv`, `/run`, `/var/lib` and home.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_lab::emulate::Lab;
use lighthaul_testkit::allowance;

use crate::expected;
use crate::page::Block;

/// A host and the shell of its user.
pub(crate) struct Host {
    shell: Child,
    commands: ChildStdin,
    lines: Receiver<String>,
    folder: PathBuf,
}

impl Host {
    /// Makes the host `name` of `lab` ready, with its files below `scratch`.
    pub(crate) fn start(lab: &Lab, name: &str, scratch: &Path) -> Self {
        let folder = scratch.join(name);
        fs::create_dir_all(folder.join("home")).unwrap();
        let mut command = lab.command(name, "sh").unwrap();
        command
            .env("HOST", &folder)
            .env("PYTHONPATH", scratch.join("site"))
            .env("HOME", folder.join("home"))
            .env("PATH", format!("{}:{PATH}", scratch.join("bin").display()))
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let commands = shell.stdin.take().unwrap();
        let (said, lines) = channel();
        let out = BufReader::new(shell.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.split(b'\n').map_while(Result::ok) {
                if said
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    break;
                }
            }
        });
        let mut host = Self {
            shell,
            commands,
            lines,
            folder,
        };
        let ready = Block {
            line: 0,
            host: name.to_owned(),
            is_service: false,
            status: 0,
            text: FURNISH.to_owned(),
            output: Vec::new(),
        };
        host.run(&ready)
            .unwrap_or_else(|why| panic!("the host {name}: {why}"));
        host
    }

    /// Runs a block. The error describes the difference from its page.
    pub(crate) fn run(&mut self, block: &Block) -> Result<(), String> {
        let script = self.folder.join(format!("block-{}", block.line));
        fs::write(&script, format!("{}\n", block.text))
            .map_err(|why| format!("cannot write {}: {why}", script.display()))?;
        if block.is_service {
            return self.serve(block, &script);
        }
        let script = script.display();
        let words = if block.status == 0 {
            format!("set -e\n. {script} </dev/null\nset +e\necho\necho {MARK} 0\n")
        } else {
            format!("( set -e; . {script} ) </dev/null\nS=$?; echo; echo {MARK} $S\n")
        };
        let (printed, status) = self.type_in(&words)?;
        let whole = printed.join("\n");
        if status != block.status {
            return Err(format!(
                "status {status}, not {}; it printed:\n{whole}",
                block.status
            ));
        }
        match expected::missing(&block.output, &printed) {
            None => Ok(()),
            Some(line) => Err(format!("nothing like {line:?} in:\n{whole}")),
        }
    }

    /// Starts a block that keeps running, and waits for its output.
    fn serve(&mut self, block: &Block, script: &Path) -> Result<(), String> {
        let log = script.with_extension("log");
        let (script, into) = (script.display(), log.display());
        self.type_in(&format!(
            "( . {script} ) </dev/null >{into} 2>&1 &\necho {MARK} 0\n"
        ))?;
        let clock = Clock::start();
        let patience = allowance(PATIENCE_SECONDS);
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<String> = said.lines().map(str::to_owned).collect();
            match expected::missing(&block.output, &lines) {
                None => return Ok(()),
                Some(line) if clock.now().since(Instant::ZERO) > patience => {
                    return Err(format!("nothing like {line:?} in:\n{said}"));
                }
                Some(_) => pause(Duration::from_millis(20)),
            }
        }
    }

    /// Returns the logs of all services of this host, each with its name.
    pub(crate) fn service_logs(&self) -> String {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut logs: Vec<PathBuf> = files.map(|file| file.path()).collect();
        logs.retain(|path| path.extension().is_some_and(|end| end == "log"));
        logs.sort();
        let show = |path: &PathBuf| {
            let said = fs::read(path).unwrap_or_default();
            format!("{}:\n{}", path.display(), String::from_utf8_lossy(&said))
        };
        logs.iter().map(show).collect()
    }

    /// Sends `words` to the shell. Returns the output up to the mark, and the status in the mark.
    fn type_in(&mut self, words: &str) -> Result<(Vec<String>, i32), String> {
        self.commands
            .write_all(words.as_bytes())
            .map_err(|e| format!("the shell is gone: {e}"))?;
        let mut printed = Vec::new();
        let patience = allowance(PATIENCE_SECONDS);
        loop {
            let line = match self.lines.recv_timeout(patience) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!(
                        "no end after {patience:?}:\n{}",
                        printed.join("\n")
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("a command failed:\n{}", printed.join("\n")));
                }
            };
            if let Some(status) = line.strip_prefix(MARK) {
                let status = status.trim().parse();
                return Ok((printed, status.map_err(|why| format!("the status: {why}"))?));
            }
            printed.push(line);
        }
    }
}

impl Drop for Host {
    /// Ends the shell with its namespace and all processes in it.
    fn drop(&mut self) {
        self.shell.kill().ok();
        self.shell.wait().ok();
    }
}

/// The longest time that a block takes on an idle host.
const PATIENCE_SECONDS: u64 = 60;
const MARK: &str = "==block-ends==";
const PATH: &str = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Mounts the host's own directories, starts an sshd, and enters the home directory.
const FURNISH: &str = r#"exec 2>&1
mkdir -p $HOST/etc $HOST/srv $HOST/run/sshd $HOST/var $HOST/home/.ssh
cp -a /etc/. $HOST/etc
for folder in etc srv run; do mount --bind $HOST/$folder /$folder; done
mount --bind $HOST/var /var/lib
rm -rf /etc/lighthaul
sed -i "s,^root:\([^:]*:[^:]*:[^:]*:[^:]*\):[^:]*:.*,root:\1:$HOST/home:/bin/sh," /etc/passwd
KEYS=$HOST/../keys
cat >$HOST/home/.ssh/config <<END
Host *
  BatchMode yes
  StrictHostKeyChecking accept-new
  LogLevel ERROR
  IdentityFile $KEYS/user
END
chmod 600 $HOST/home/.ssh/config
cat >$HOST/sshd_config <<END
HostKey $KEYS/host
AuthorizedKeysFile $KEYS/user.pub
StrictModes no
UsePAM no
PidFile none
SetEnv PATH=$PATH
END
echo show-error >$HOST/home/.curlrc
/usr/sbin/sshd -f $HOST/sshd_config
cd
"#;
