//! Remote side behind a real sshd, which has its own keys, port and configuration.

use std::fmt::Write;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use lighthaul_testkit::lacks_tool;

use crate::far::{Near, PROGRAM};
use crate::running::{Outcome, Running};
use crate::scratch::{dress, look, names, tree};
use crate::stage::Stage;

/// The caller, and a daemon of ssh that lets its key in; `far` is the name of its host.
pub(crate) struct Sshd {
    pub(crate) near: Near,
    pub(crate) daemon: Running,
}

/// Login shells whose settings print: the shell, the file of its settings in the home directory, and a line of it.
pub(crate) const TALKATIVE_SHELLS: [(&str, &str, &str); 3] = [
    ("/bin/bash", ".bashrc", "echo welcome; printf '$ '"),
    (
        "/usr/bin/fish",
        ".config/fish/config.fish",
        "echo welcome; printf '> '",
    ),
    ("/bin/tcsh", ".cshrc", "echo welcome; echo -n '% '"),
];

/// Settings of a daemon of ssh.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup<'a> {
    /// Lines of its configuration.
    pub(crate) config: &'a str,
    /// Login shell of the user there; the usual one if empty.
    pub(crate) shell: &'a str,
    /// Options of a file system in memory that is mounted as `.cache` in the home directory there; none if empty.
    pub(crate) cache: &'a str,
}

impl Sshd {
    /// Starts it; nothing where ssh is not installed.
    pub(crate) fn start(name: &str) -> Option<Self> {
        Self::start_as(name, None, Setup::default())
    }

    /// The same on the host `b` of `stage`, at [`PORT`].
    pub(crate) fn start_on(name: &str, stage: Stage, setup: Setup<'_>) -> Option<Self> {
        Self::start_as(name, Some(stage), setup)
    }

    /// Ends it, and checks the number of logins by this method.
    pub(crate) fn assert_logins(self, method: &str, is_right: impl Fn(usize) -> bool) {
        let Self { near, mut daemon } = self;
        daemon.says("Accepted ");
        daemon.signal("TERM");
        let lines = daemon.finish().err;
        let accepted = format!("Accepted {method}");
        let logins = lines.iter().filter(|line| line.contains(&accepted)).count();
        assert!(is_right(logins), "{logins}: {lines:?}");
        drop(near);
    }

    fn start_as(name: &str, stage: Option<Stage>, setup: Setup<'_>) -> Option<Self> {
        if lacks_tool(name, "ssh") || lacks_tool(name, "/usr/sbin/sshd") {
            return None;
        }
        let near = Near::new(name, stage);
        for key in ["host", "user", "stranger"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(near.at(key));
            near.run(make).assert_succeeded();
        }
        let address = if near.stage.is_some() {
            "10.77.0.2"
        } else {
            "127.0.0.1"
        };
        // another process may take a free port before the daemon does
        let found = (0..10).find_map(|_| {
            let port = if near.stage.is_some() {
                PORT
            } else {
                free_port()
            };
            let daemon = listen(&near, ("b", address, port), setup);
            daemon.map(|daemon| (daemon, port))
        });
        let Some((daemon, port)) = found else {
            panic!("sshd listens at none of ten ports");
        };
        configure(&near, "far", (address, port));
        Some(Self { near, daemon })
    }

    /// A copy through ssh, whose options are added to `-e`.
    fn cp(&self, ssh: &str, options: &[&str], paths: &[&str]) -> Outcome {
        self.near
            .run(self.copy(&format!("{} {ssh}", self.ssh()), options, paths))
    }

    /// The ssh command.
    pub(crate) fn ssh(&self) -> String {
        format!("ssh -F {}", self.near.at("ssh_config").display())
    }

    /// A copy by the ssh command `ssh`.
    pub(crate) fn copy(&self, ssh: &str, options: &[&str], paths: &[&str]) -> Command {
        let mut copy = self.near.cp(options);
        if paths.len() == 2 && !paths[1].ends_with('/') {
            copy.arg("-T");
        }
        copy.args(["-e", ssh, "--remote", PROGRAM]).args(paths);
        copy
    }

    /// Returns the place of `name` through ssh.
    pub(crate) fn place(&self, name: &str) -> String {
        format!("far:{}", self.far(name).display())
    }

    /// Returns the path of `name` at the target.
    pub(crate) fn far(&self, name: &str) -> PathBuf {
        self.near.folder("far").join(name)
    }
}

/// Port of a daemon of ssh on a stage.
pub(crate) const PORT: u16 = 2222;
/// Password of the user of a daemon of ssh.
pub(crate) const PASSWORD: &str = "s3cret";

/// A daemon of ssh on a host, at an address and port; nothing if that is taken. Its user has a home of the test's own,
/// the shell of `setup` and a [`PASSWORD`].
pub(crate) fn listen(
    near: &Near,
    (on, address, port): (&str, &str, u16),
    setup: Setup<'_>,
) -> Option<Running> {
    let (host, user) = (near.at("host"), near.at("user.pub"));
    let text = format!(
        "{}\nPort {port}\nListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\nPidFile none\n",
        setup.config,
        host.display(),
        user.display()
    );
    let config = near.at(&format!("sshd_config-{port}"));
    fs::write(&config, text).unwrap();
    // where root's daemon keeps its unprivileged processes
    fs::create_dir_all("/run/sshd").ok();
    let path = config.display().to_string();
    let serve = ["/usr/sbin/sshd", "-D", "-e", "-f", &path];
    let mut command = match &near.stage {
        None => Command::new(serve[0]),
        Some(stage) => {
            let mut command = stage.lab.command(on, "unshare").unwrap();
            command.args(["-m", "sh", "-c", AS_USER, "sh"]);
            command.arg(accounts(near, setup.shell));
            command.arg(near.folder("home/.cache"));
            command.args([setup.cache, serve[0]]);
            command
        }
    };
    command.args(&serve[1..]);
    let mut daemon = Running::start(command);
    let line = daemon.says_any(&["listening on", "Address already in use"]);
    line.contains("listening on").then_some(daemon)
}

/// Replaces the accounts of the host, and the file system of a cache directory, for the daemon alone.
const AS_USER: &str = "mount --bind $1/passwd /etc/passwd && mount --bind $1/shadow /etc/shadow && \
    { test -z \"$3\" || mount -t tmpfs -o \"$3\" none \"$2\"; } && shift 3 && exec \"$@\"";

/// Writes the accounts of a host with one user.
fn accounts(near: &Near, shell: &str) -> PathBuf {
    let folder = near.folder("accounts");
    let home = near.folder("home");
    let shell = if shell.is_empty() { "/bin/bash" } else { shell };
    let passwd = format!(
        "root:x:0:0:root:{}:{shell}\nsshd:x:105:65534::/run/sshd:/usr/sbin/nologin\n",
        home.display()
    );
    fs::write(folder.join("passwd"), passwd).unwrap();
    let mut make = Command::new("openssl");
    make.args(["passwd", "-6", PASSWORD]);
    let hash = near.run(make).assert_succeeded().out.concat();
    let shadow = format!("root:{hash}:19000:0:99999:7:::\nsshd:!:19000::::::\n");
    fs::write(folder.join("shadow"), shadow).unwrap();
    folder
}

/// Adds `name` to the configuration of the ssh client: address and key of the host, key of the user. The usual exchange
/// of keys takes each side 0.1 s of computing, which no test is about.
pub(crate) fn configure(near: &Near, name: &str, (address, port): (&str, u16)) {
    let key = fs::read_to_string(near.at("host.pub")).unwrap();
    let known = near.at("known_hosts");
    let mut hosts = fs::read_to_string(&known).unwrap_or_default();
    write!(hosts, "[{address}]:{port} {key}").unwrap();
    fs::write(&known, hosts).unwrap();
    let mut text = fs::read_to_string(near.at("ssh_config")).unwrap_or_default();
    write!(
        text,
        "Host {name}\n HostName {address}\n Port {port}\n IdentitiesOnly yes\n IdentityFile {}\n KexAlgorithms curve25519-sha256\n\
          StrictHostKeyChecking yes\n UserKnownHostsFile {}\n",
        near.at("user").display(),
        known.display()
    )
    .unwrap();
    fs::write(near.at("ssh_config"), text).unwrap();
}

/// Returns a port without a listener. Another process may take it at any time.
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
    let options = ["--retries", "0"];
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
fn failed_openssh_login_is_reported_and_leaves_no_leftovers() {
    let Some(ssh) = Sshd::start("sshd-fails") else {
        return;
    };
    let file = ssh.near.file("x", 10);
    let (local, there) = (file.to_str().unwrap(), ssh.place("x"));
    let paths = [local, there.as_str()];
    let mut missing = ssh.near.cp(&["--retries", "0", "-e", &ssh.ssh()]);
    missing.args(["--remote", "/no/such/lighthaul"]).args(paths);
    let outcome = ssh
        .near
        .run(missing)
        .assert_failed(3, "is not installed on far");
    assert!(
        outcome.said("name its path there with --remote"),
        "{outcome:?}"
    );
    let options = ["--retries", "0"];
    let stranger = ssh.near.at("stranger");
    let stranger = format!(
        "-o BatchMode=yes -o IdentityFile=none -i {}",
        stranger.display()
    );
    // the configuration's key would be tried, too
    let text = fs::read_to_string(ssh.near.at("ssh_config")).unwrap();
    let without = text.lines().filter(|line| !line.contains("IdentityFile"));
    let without: Vec<_> = without.collect();
    fs::write(ssh.near.at("ssh_config"), without.join("\n")).unwrap();
    ssh.cp(&stranger, &options, &paths)
        .assert_failed(10, "ssh could not reach far");
    assert!(names(&ssh.near.folder("far")).is_empty());
}
