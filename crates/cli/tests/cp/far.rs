//! Two sides: a client with its own configuration, and a daemon.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use crate::running::{Outcome, Running};
use crate::scratch::{Scratch, names};
use crate::stage::Stage;

/// The client side.
#[derive(Debug)]
pub(crate) struct Near {
    scratch: Scratch,
    /// Host of the stage that it runs on, if not this one.
    pub(crate) stage: Option<Stage>,
}

/// A daemon, its target directory, and its client.
#[derive(Debug)]
pub(crate) struct Far {
    /// The daemon. It ends before its files and its network are removed.
    pub(crate) daemon: Running,
    /// The client.
    pub(crate) near: Near,
    /// Port of the daemon.
    pub(crate) port: u16,
    /// Key of the daemon.
    pub(crate) pin: String,
    /// Directory that files are copied to and from.
    pub(crate) target: PathBuf,
}

impl Near {
    /// A client for the test `name`.
    pub(crate) fn new(name: &str, stage: Option<Stage>) -> Self {
        Self {
            scratch: Scratch::new(name),
            stage,
        }
    }

    /// The command with `words`.
    pub(crate) fn lighthaul(&self, words: &[&str]) -> Command {
        self.on("a", PROGRAM, words)
    }

    /// The same command, as a program that is quickly copied to another host.
    pub(crate) fn small_lighthaul(&self, words: &[&str]) -> Command {
        self.on("a", small_program(), words)
    }

    /// The command with `words` on a host of the stage, or on this one if there is none.
    fn on(&self, host: &str, program: &str, words: &[&str]) -> Command {
        let mut command = match &self.stage {
            Some(stage) => stage.lab.command(host, program).unwrap(),
            None => Command::new(program),
        };
        command
            .args(words)
            .env("XDG_CONFIG_HOME", self.at("config"))
            .env("XDG_CACHE_HOME", self.at("cache"));
        command
    }

    /// A copy with `options`.
    pub(crate) fn cp(&self, options: &[&str]) -> Command {
        let mut command = self.lighthaul(&["cp"]);
        command.args(options);
        if !options.contains(&"--trc") {
            // little data would not use datagrams
            command.env("LIGHTHAUL_PROTOCOL", "rbudp");
        }
        command
    }

    /// Runs `command` until it ends.
    #[expect(clippy::unused_self, reason = "it reads better")]
    pub(crate) fn run(&self, command: Command) -> Outcome {
        Running::start(command).finish()
    }

    /// The client's key.
    pub(crate) fn key(&self) -> PathBuf {
        self.at("key")
    }

    /// File with the keys that the daemon accepts.
    pub(crate) fn allowed(&self) -> PathBuf {
        self.at("allowed")
    }
}

impl Deref for Near {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl Far {
    /// Starts a daemon on this host, with `options` of `serve`, in which `ROOT` stands for its directory
    /// and `TOKENS` for its file of tokens.
    pub(crate) fn start(name: &str, options: &[&str]) -> Self {
        Self::start_at(name, &format!("127.0.0.1:{}", free_port()), options)
    }

    /// The same, where the daemon listens at `address`.
    pub(crate) fn start_at(name: &str, address: &str, options: &[&str]) -> Self {
        let near = Near::new(name, None);
        let serve = near.lighthaul(&["serve", "--listen", address]);
        Self::with(near, serve, options)
    }

    /// Starts a daemon on this host, with its command changed by `change`.
    pub(crate) fn start_as(name: &str, change: impl FnOnce(&mut Command)) -> Self {
        let near = Near::new(name, None);
        let mut serve = near.lighthaul(&["serve", "--listen", "127.0.0.1:0"]);
        change(&mut serve);
        Self::with(near, serve, &[])
    }

    /// Starts a daemon on the host `b` of `stage`, to be called from `a`.
    pub(crate) fn start_on(name: &str, stage: Stage) -> Self {
        let near = Near::new(name, Some(stage));
        let serve = near.on("b", PROGRAM, &["serve", "--listen", "0.0.0.0:0"]);
        Self::with(near, serve, &[])
    }

    /// Starts a daemon on this host, in a shell that runs `script` first, which may change mounts.
    /// In it `$1` stands for the target directory.
    pub(crate) fn start_after(name: &str, script: &str) -> Self {
        let near = Near::new(name, None);
        let mut shell = Command::new("unshare");
        let script =
            format!("set -e; {script}; shift; exec {PROGRAM} serve --listen 127.0.0.1:0 \"$@\"");
        shell
            .args(["-m", "sh", "-c", &script, "sh"])
            .arg(near.folder("target"));
        Self::with(near, shell, &[])
    }

    /// Starts the command `serve` with further `options`, as the daemon for `near`.
    pub(crate) fn with(near: Near, mut serve: Command, options: &[&str]) -> Self {
        let mut key = near.lighthaul(&["key", "--key"]);
        key.arg(near.key());
        let key = near.run(key).assert_succeeded().out.concat();
        // `permits` tests the keys without these rights
        let words = ["allow", &key, "tester", "--owners", "--special"];
        let mut allow = near.lighthaul(&words);
        allow.arg("--allowed").arg(near.allowed());
        near.run(allow).assert_succeeded();
        let target = near.folder("target");
        serve
            .env("LIGHTHAUL_ROOT", "/")
            .arg("--key")
            .arg(near.at("host-key"))
            .arg("--allowed")
            .arg(near.allowed());
        for option in options {
            match *option {
                "ROOT" => serve.arg(&target),
                "TOKENS" => serve.arg(near.at("tokens")),
                option => serve.arg(option),
            };
        }
        let mut daemon = Running::start(serve);
        let line = daemon.says("listening on ");
        let address = line
            .split("listening on ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        let line = daemon.says("this host's key is ");
        let pin = line[line.find("sha256:").unwrap()..][..71].to_owned();
        Self {
            daemon,
            near,
            port,
            pin,
            target,
        }
    }

    /// Starts a daemon instead of one that has died.
    pub(crate) fn restart(&mut self) {
        self.daemon.kill();
        let (host, address) = match self.near.stage {
            Some(_) => ("b", "0.0.0.0"),
            None => ("", "127.0.0.1"),
        };
        let listen = format!("{address}:{}", self.port);
        let mut serve = self
            .near
            .on(host, PROGRAM, &["serve", "--listen", &listen, "--key"]);
        serve
            .env("LIGHTHAUL_ROOT", "/")
            .arg(self.near.at("host-key"))
            .arg("--allowed")
            .arg(self.near.allowed());
        self.daemon = Running::start(serve);
        self.daemon.says("listening on ");
    }

    /// Returns the place of `name` in the target directory.
    pub(crate) fn place(&self, name: &str) -> String {
        let host = if self.near.stage.is_some() {
            "b"
        } else {
            "127.0.0.1"
        };
        format!("lh://{host}:{}{}/{name}", self.port, self.target.display())
    }

    /// A copy of `paths`, the last of which is the target: the new name of one source.
    pub(crate) fn copy(&self, options: &[&str], paths: &[&str]) -> Command {
        let mut copy = self.usual_copy(options, paths);
        if paths.len() == 2 && !paths[1].ends_with('/') {
            copy.arg("-T");
        }
        copy
    }

    /// A copy of `paths`, the last of which is the target.
    pub(crate) fn usual_copy(&self, options: &[&str], paths: &[&str]) -> Command {
        let mut copy = self.near.cp(options);
        copy.args(["--retries", "0", "--pin", &self.pin, "--key"])
            .arg(self.near.key())
            .args(paths);
        copy
    }

    /// Copies `paths`, the last of which is the target.
    pub(crate) fn run(&self, options: &[&str], paths: &[&str]) -> Outcome {
        self.near.run(self.copy(options, paths))
    }

    /// Copies `paths` as a user that is not root, and may write in the directory `open`.
    pub(crate) fn run_as_user(&self, options: &[&str], paths: &[&str], open: &Path) -> Outcome {
        let mode = PermissionsExt::from_mode(0o777);
        fs::set_permissions(open, mode).unwrap();
        chown(self.near.key(), Some(USER), Some(USER)).unwrap();
        self.near.run(as_user(&self.copy(options, paths)))
    }

    /// Copies `sources` to `name` in the target directory.
    pub(crate) fn push(&self, options: &[&str], sources: &[&Path], name: &str) -> Outcome {
        let place = self.place(name);
        let mut paths: Vec<_> = sources.iter().map(|path| path.to_str().unwrap()).collect();
        paths.push(&place);
        self.run(options, &paths)
    }

    /// Copies `sources` of the target directory to `path` here.
    pub(crate) fn pull(&self, options: &[&str], sources: &[&str], path: &str) -> Outcome {
        let mut paths: Vec<_> = sources.iter().map(|name| self.place(name)).collect();
        paths.push(path.to_owned());
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        self.run(options, &paths)
    }

    /// Copies until datagrams carry the data. A busy host may answer too late those that explore the path, and then TCP
    /// carries the data.
    pub(crate) fn by_datagrams(&self, copy: impl Fn() -> Outcome) -> Outcome {
        let mut outcomes = (0..5).map(|_| {
            // what is known of the path
            fs::remove_dir_all(self.near.at("cache")).ok();
            copy().assert_succeeded()
        });
        let is_direct = |outcome: &Outcome| !outcome.said("TCP carries the data");
        outcomes.find(is_direct).unwrap()
    }

    /// Returns the names in the target directory, hidden files included.
    pub(crate) fn names(&self) -> Vec<String> {
        names(&self.target)
    }
}

/// Returns a free port below those that the system gives to clients, so that a daemon which is started again finds it
/// free.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let nth = std::process::id().wrapping_mul(997) + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (nth % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A port on which no process listens, and which no other process gets.
#[derive(Debug)]
pub(crate) struct ClosedPort(OwnedFd);

impl ClosedPort {
    /// Takes a free port.
    pub(crate) fn new() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self(socket)
    }

    /// Returns the number of the port.
    pub(crate) fn number(&self) -> u16 {
        let address = getsockname(&self.0).unwrap();
        SocketAddrV4::try_from(address).unwrap().port()
    }
}

/// `command` as a user that is not root.
pub(crate) fn as_user(command: &Command) -> Command {
    let mut user = Command::new("setpriv");
    user.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
    user.arg("--clear-groups").arg(command.get_program());
    user.args(command.get_args());
    for (name, value) in command.get_envs() {
        user.env(name, value.unwrap());
    }
    user
}

/// Unused user and group numbers.
pub(crate) const USER: u32 = 1234;
/// Returns the path of the command without symbols, less than half as large.
pub(crate) fn small_program() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/lighthaul-small").to_owned();
        let part = format!("{path}-{}", std::process::id());
        let mut strip = Command::new("strip");
        let stripped = strip.args(["-o", &part, PROGRAM]).status().unwrap();
        assert!(stripped.success(), "{stripped}");
        fs::rename(part, &path).unwrap();
        path
    })
}

/// The command that was built.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_lighthaul");
