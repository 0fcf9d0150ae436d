//! Remote side behind a real sshd, which has its own keys, port and configuration.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use lighthaul_testkit::lacks_tool;

use crate::far::{Near, PROGRAM};
use crate::running::{Outcome, Running};
use crate::scratch::{dress, look, names, tree};

/// The client, and an sshd that accepts its key; `far` is the name of its host.
struct Sshd {
    near: Near,
    _daemon: Running,
}

impl Sshd {
    /// Starts the sshd, or returns `None` if ssh is not installed.
    fn start(name: &str) -> Option<Self> {
        if lacks_tool(name, "ssh") || lacks_tool(name, "/usr/sbin/sshd") {
            return None;
        }
        let near = Near::new(name, None);
        for key in ["host", "user", "stranger"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(near.at(key));
            near.run(make).assert_succeeded();
        }
        // another process may take a free port before the daemon does
        let found = (0..10).find_map(|_| {
            let port = free_port();
            listen(&near, port).map(|daemon| (daemon, port))
        });
        let Some((daemon, port)) = found else {
            panic!("sshd listens at none of ten ports");
        };
        configure(&near, port);
        Some(Self {
            near,
            _daemon: daemon,
        })
    }

    /// A copy through ssh, whose options are added to `-e`.
    fn cp(&self, ssh: &str, options: &[&str], paths: &[&str]) -> Outcome {
        let mut copy = self.near.cp(options);
        let config = self.near.at("ssh_config");
        copy.arg("-e")
            .arg(format!("ssh -F {} {ssh}", config.display()))
            .args(paths);
        self.near.run(copy)
    }

    /// Returns the place of `name` through ssh.
    fn place(&self, name: &str) -> String {
        format!("far:{}", self.far(name).display())
    }

    /// Directory of the target.
    fn far(&self, name: &str) -> PathBuf {
        self.near.folder("far").join(name)
    }
}

/// Starts the daemon at a port. Returns `None` if the port is in use.
fn listen(near: &Near, port: u16) -> Option<Running> {
    let (host, user) = (near.at("host"), near.at("user.pub"));
    let text = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\nPidFile none\n",
        host.display(),
        user.display()
    );
    fs::write(near.at("sshd_config"), text).unwrap();
    // directory of the unprivileged processes of root's daemon
    fs::create_dir_all("/run/sshd").ok();
    let mut serve = Command::new("/usr/sbin/sshd");
    serve.args(["-D", "-e", "-f"]).arg(near.at("sshd_config"));
    let mut daemon = Running::start(serve);
    let line = daemon.says("port ");
    line.contains("listening on").then_some(daemon)
}

/// Configuration of the ssh client: address and key of the host, key of the user.
fn configure(near: &Near, port: u16) {
    let key = fs::read_to_string(near.at("host.pub")).unwrap();
    let known = near.at("known_hosts");
    fs::write(&known, format!("[127.0.0.1]:{port} {key}")).unwrap();
    let text = format!(
        "Host far\n HostName 127.0.0.1\n Port {port}\n IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n\
          StrictHostKeyChecking yes\n UserKnownHostsFile {}\n",
        near.at("user").display(),
        known.display()
    );
    fs::write(near.at("ssh_config"), text).unwrap();
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn copies_over_openssh_work_in_both_directions() {
    let Some(ssh) = Sshd::start("sshd-both-ways") else {
        return;
    };
    let source = ssh.near.folder("source");
    for nth in 0..20_u64 {
        let file = ssh.near.file(&format!("source/{nth}"), nth * 30_000);
        dress(&file, 0o640, 1_600_000_000 + nth);
    }
    let (local, there) = (source.to_str().unwrap(), ssh.place("tree"));
    let options = ["--remote", PROGRAM, "--retries", "0"];
    let pushed = ssh.cp("", &options, &[local, &there]).assert_succeeded();
    assert!(pushed.said("verified"), "{pushed:?}");
    assert!(tree(&ssh.far("tree")) == tree(&source));
    // a second copy without encryption and with --checksum sends nothing
    let again = [&options[..], &["--plain", "--checksum", "--json"]].concat();
    let outcome = ssh.cp("-o Compression=yes", &again, &[local, &there]);
    let summary = outcome.assert_succeeded().events().pop().unwrap();
    assert_eq!(summary["bytes_moved"], 0, "{summary}");
    let back = ssh.near.at("back");
    let paths = [there.as_str(), back.to_str().unwrap()];
    ssh.cp("", &options, &paths).assert_succeeded();
    assert!(tree(&back) == tree(&source));
    let file = ssh.near.file("one", 3_000_000);
    let one = ssh.place("one");
    let options = [&options[..], &["--no-udp"]].concat();
    ssh.cp("", &options, &[file.to_str().unwrap(), &one])
        .assert_succeeded();
    assert!(look(&ssh.far("one")) == look(&file));
}

#[test]
fn failed_openssh_login_is_reported_and_leaves_nothing() {
    let Some(ssh) = Sshd::start("sshd-fails") else {
        return;
    };
    let file = ssh.near.file("x", 10);
    let (local, there) = (file.to_str().unwrap(), ssh.place("x"));
    let paths = [local, there.as_str()];
    let missing = ["--remote", "/no/such/lighthaul", "--retries", "0"];
    ssh.cp("", &missing, &paths)
        .assert_failed(3, "is not installed on far");
    let options = ["--remote", PROGRAM, "--retries", "0"];
    let stranger = ssh.near.at("stranger");
    let stranger = format!("-o IdentityFile=none -i {}", stranger.display());
    // the configuration's key would be tried, too
    let text = fs::read_to_string(ssh.near.at("ssh_config")).unwrap();
    let without = text.lines().filter(|line| !line.contains("IdentityFile"));
    let without: Vec<_> = without.collect();
    fs::write(ssh.near.at("ssh_config"), without.join("\n")).unwrap();
    ssh.cp(&stranger, &options, &paths)
        .assert_failed(10, "ssh could not reach far");
    assert!(names(&ssh.near.folder("far")).is_empty());
}
