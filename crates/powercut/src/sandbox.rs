//! Namespaces of mounts, processes and network in which a trial runs, and with which all that it made vanishes.

use std::path::Path;
use std::process::Command;

/// Says why there can be no rig on this host, if that is so.
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

/// A command that runs `program` in namespaces of its own. When the calling thread or the first process in
/// there dies, or `seconds` are over, everything else in there is killed, its mounts go, and its loop devices
/// with them.
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
    // `exec` keeps the process that the namespaces die with
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
