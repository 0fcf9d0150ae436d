//! Programs over ssh: scp, rclone over SFTP, rsync, and Lighthaul where only the port of ssh is
//! open.
//!
//! Each constant is one `OverSsh`: its name in the table, its Debian package, and its command line.
//! All share one `sshd` on port 2222, with keys that the bench generates. Names that begin with
//! `ssh-` copy only one file of 512 MiB, on the path where all other ports are closed.

use std::process::Command;
use std::{fs, io};

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::peer::{Peer, Service, need};

/// Program that reaches the other host through `sshd`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverSsh {
    name: &'static str,
    package: &'static str,
    words: fn(&Trial<'_>) -> Vec<String>,
}

/// `scp`, which does not verify.
pub(crate) const SCP: OverSsh = OverSsh::new("scp", "openssh-client", scp);

/// `rclone copy`, which compares checksums of both sides afterwards.
pub(crate) const RCLONE: OverSsh = OverSsh::new("rclone", "rclone", rclone);

/// `rsync -a`, which starts its remote side over ssh.
pub(crate) const RSYNC: OverSsh = OverSsh::new("ssh-rsync", "rsync", rsync);

/// `lighthaul cp`, which starts its remote side over ssh.
pub(crate) const LIGHTHAUL: OverSsh = OverSsh::new("ssh-lighthaul", "openssh-client", lighthaul);

/// `lighthaul cp` over ssh, without encryption of its own.
pub(crate) const LIGHTHAUL_PLAIN: OverSsh =
    OverSsh::new("ssh-lighthaul-plain", "openssh-client", lighthaul_plain);

impl OverSsh {
    const fn new(
        name: &'static str,
        package: &'static str,
        words: fn(&Trial<'_>) -> Vec<String>,
    ) -> Self {
        Self {
            name,
            package,
            words,
        }
    }
}

impl Peer for OverSsh {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        let source = format!("Debian packages {} and openssh-server", self.package);
        let program = match self.name.strip_prefix("ssh-") {
            Some("rsync") => "rsync",
            Some(_) => "ssh",
            None => self.name,
        };
        need(tools, &[program, "sshd"], &source)
    }

    fn moves(&self, data: Data) -> bool {
        let is_for_ssh = self.name.starts_with("ssh-");
        data != Data::Memory && (!is_for_ssh || data == Data::HalfGibibyte)
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        sshd(trial)
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        (self.words)(trial)
    }
}

fn scp(trial: &Trial<'_>) -> Vec<String> {
    let user = file(trial.tools, "ssh-user");
    let rest = [
        "-q",
        "-r",
        "-P",
        PORT,
        "-i",
        &user,
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
    ];
    let target = format!("{}:{}/", trial.address, trial.target());
    let ends = vec![trial.source(), target];
    [trial.words("scp", &rest), ends].concat()
}

/// Returns the ssh command that knows the user's key.
fn ssh(trial: &Trial<'_>) -> String {
    let user = file(trial.tools, "ssh-user");
    format!(
        "ssh -p {PORT} -i {user} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    )
}

fn rsync(trial: &Trial<'_>) -> Vec<String> {
    let target = format!("{}:{}/", trial.address, trial.target());
    let rest = ["-a", "-e", &ssh(trial), &trial.source(), &target];
    trial.words("rsync", &rest)
}

fn lighthaul(trial: &Trial<'_>) -> Vec<String> {
    let program = trial.tools.lighthaul.to_string_lossy().into_owned();
    let target = format!("{}:{}/", trial.address, trial.target());
    let rest = [
        "cp",
        "--json",
        "-e",
        &ssh(trial),
        "--remote",
        &program,
        &trial.source(),
        &target,
    ];
    let words = rest.map(str::to_owned);
    [vec![program.clone()], words.to_vec()].concat()
}

fn lighthaul_plain(trial: &Trial<'_>) -> Vec<String> {
    let mut words = lighthaul(trial);
    words.insert(2, "--plain".to_owned());
    words
}

fn rclone(trial: &Trial<'_>) -> Vec<String> {
    let user = file(trial.tools, "ssh-user");
    let login = format!(
        "host={},port={PORT},user=root,key_file={user}",
        trial.address
    );
    let mut target = format!(":sftp,{login}:{}", trial.target());
    if !trial.files.data.is_one_file() {
        target = format!("{target}/{}", trial.name());
    }
    let rest = ["--config", "/dev/null", "copy", &trial.source(), &target];
    trial.words("rclone", &rest)
}

/// Prepares an ssh daemon that allows one user, and creates the keys of both sides.
fn sshd(trial: &Trial<'_>) -> io::Result<Service> {
    let tools = trial.tools;
    let [host, user] = ["ssh-host", "ssh-user"].map(|name| file(tools, name));
    for key in [&host, &user] {
        if !std::path::Path::new(key).exists() {
            let status = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", key])
                .status()?;
            if !status.success() {
                return Err(io::Error::other(format!("ssh-keygen: {status}")));
            }
        }
    }
    fs::create_dir_all("/run/sshd")?;
    let config = file(tools, "sshd_config");
    let text = format!(
        "Port {PORT}\nHostKey {host}\nAuthorizedKeysFile {user}.pub\nStrictModes no\nUsePAM no\nPidFile none\n\
         PermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n"
    );
    fs::write(&config, text)?;
    Ok(Service {
        words: trial.words("sshd", &["-D", "-e", "-f", &config]),
        ready: "tcp:2222",
        ends_alone: false,
    })
}

fn file(tools: &Tools, name: &str) -> String {
    tools.work.join(name).to_string_lossy().into_owned()
}

const PORT: &str = "2222";
