//! Copies to a disk that is slow for some time.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use lighthaul_testkit::skip;

use crate::far::Far;
use crate::running::Running;
use crate::schema::assert_valid;

/// File that limits the bytes per second which processes of the root group write to a device.
const THROTTLE: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

/// File system on a loop device, to which each write is synchronous.
struct Disk {
    path: PathBuf,
    /// Major and minor number of the device.
    device: String,
    loop_device: String,
}

impl Disk {
    /// Creates a disk of `bytes`, mounted at `path`.
    fn new(image: &Path, bytes: u64, path: PathBuf) -> Self {
        fs::File::create(image).unwrap().set_len(bytes).unwrap();
        let loop_device = output(
            Command::new("losetup")
                .args(["--find", "--show"])
                .arg(image),
        );
        output(Command::new("mkfs.ext4").args(["-q", &loop_device]));
        fs::create_dir(&path).unwrap();
        output(
            Command::new("mount")
                .args(["-o", "sync", &loop_device])
                .arg(&path),
        );
        let name = loop_device.trim_start_matches("/dev/");
        let device = fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
        Self {
            path,
            device: device.trim().to_owned(),
            loop_device,
        }
    }

    /// Limits the bytes per second; zero removes the limit.
    fn limit(&self, bytes: u64) {
        fs::write(THROTTLE, format!("{} {bytes}", self.device)).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.limit(0);
        Command::new("umount")
            .arg("--lazy")
            .arg(&self.path)
            .status()
            .ok();
        let mut detach = Command::new("losetup");
        detach.args(["--detach", &self.loop_device]).status().ok();
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn rate_and_lanes_follow_the_disk_of_the_receiver() {
    if OpenOptions::new().write(true).open(THROTTLE).is_err() {
        let why = "needs root, and the controller blkio of cgroup v1";
        return skip("rate_and_lanes_follow_the_disk_of_the_receiver", why);
    }
    let mut far = Far::start("slow-disk", &[]);
    let disk = Disk::new(&far.near.at("image"), 600 << 20, far.target.join("disk"));
    disk.limit(4 << 20);
    let file = far.near.file("x", 320_000_000);
    let options = ["--json", "--explain", "--rate", "400Mb/s"];
    let paths = [file.display().to_string(), far.place("disk/x")];
    let mut copy = Running::start(far.copy(&options, &[&paths[0], &paths[1]]));
    let because =
        "because the copy waits for the disk of the receiving host; one lane sends at a time";
    let slow = copy.prints(because);
    assert!(
        slow.contains("the rate falls from 400.000 Mb/s to "),
        "{slow}"
    );
    disk.limit(0);
    copy.prints("because the disk of the receiving host keeps up; all lanes send again");
    let outcome = copy.finish().assert_succeeded();
    let summary = assert_valid(&outcome).pop().unwrap();
    assert_eq!(summary["bottleneck"], "target_disk", "{summary}");
    assert!(fs::read(disk.path.join("x")).unwrap() == fs::read(&file).unwrap());
    // the disk is busy until the daemon has closed its files
    far.daemon.kill();
}
