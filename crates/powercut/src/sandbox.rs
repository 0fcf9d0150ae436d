//! Sandbox of a trial: namespaces of mounts, processes and network, which remove everything that
//! the trial created.

use std::path::Path;
use std::process::Command;

/// Fails with a reason if this host cannot run power cuts.
pub fn available() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("power cuts need root, for mounts".to_owned());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(device).exists() {
            return Err(format!("power cuts need {device}"));
        }
    }
    match TOOLS.into_iter().find(|tool| !is_there(tool)) {
        Some(tool) => Err(format!("power cuts need {tool}: run make setup")),
        None => Ok(()),
    }
}

fn is_there(tool: &str) -> bool {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    folders
        .into_iter()
        .any(|folder| Path::new(folder).join(tool).exists())
}

/// Creates a command that runs `program` in new namespaces. All its processes, mounts and loop
/// devices end when the calling thread or the first process dies, or after `seconds`.
pub fn command(program: &Path, seconds: u64) -> Command {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=1").arg(seconds.to_string());
    command.args([
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    // `exec` keeps the first process, whose end destroys the namespaces.
    command.args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    command.arg(program);
    command
}

const TOOLS: [&str; 7] = [
    "unshare",
    "mount",
    "umount",
    "mkfs.ext4",
    "mkfs.xfs",
    "mkfs.btrfs",
    "ip",
];
