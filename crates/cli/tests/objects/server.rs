//! A real S3 server, versitygw, and the command with the settings for it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use lighthaul_testkit::lacks;

use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::Scratch;

/// An S3 server with the bucket `data`, and a scratch directory.
#[derive(Debug)]
pub(crate) struct Server {
    _process: Running,
    pub(crate) scratch: Scratch,
    /// Address, as in `127.0.0.1:7070`.
    pub(crate) address: String,
}

/// Access key and secret of the server.
pub(crate) const KEYS: [&str; 2] = ["tester", "secret-of-tester"];

impl Server {
    /// Starts a server for the test `name`, or skips the test if there is none.
    pub(crate) fn start(name: &str) -> Option<Self> {
        let program = tool("versitygw");
        let missing = || format!("needs {}: run make test", program.display());
        if lacks(name, program.exists().then_some(()).ok_or_else(missing)) {
            return None;
        }
        let scratch = Scratch::new(&format!("objects-{name}"));
        // a bucket is a directory
        scratch.folder("store/data");
        scratch.folder("home");
        let address = free_address();
        let mut command = Command::new(program);
        command
            .args([
                "--access", KEYS[0], "--secret", KEYS[1], "--port", &address, "--quiet", "posix",
            ])
            .arg(scratch.at("store"));
        let server = Running::start(command);
        becomes_true("the S3 server answers", || {
            std::net::TcpStream::connect(&address).is_ok()
        });
        Some(Self {
            _process: server,
            scratch,
            address,
        })
    }

    /// Returns the command with these arguments, for the store at `address`.
    pub(crate) fn command_at(&self, address: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lighthaul"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AWS_")
                || name.to_string_lossy().starts_with("LIGHTHAUL_")
            {
                command.env_remove(name);
            }
        }
        command
            .args(args)
            .current_dir(self.scratch.at(""))
            .env("HOME", self.scratch.at("home"))
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env("AWS_ENDPOINT_URL", format!("http://{address}"))
            .env("AWS_ACCESS_KEY_ID", KEYS[0])
            .env("AWS_SECRET_ACCESS_KEY", KEYS[1])
            .env("AWS_REGION", "us-east-1");
        command
    }

    /// Runs the command with these arguments.
    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        Running::start(self.command_at(&self.address, args)).finish()
    }

    /// Copies, and asserts success. Returns the outcome with its events.
    pub(crate) fn copy(&self, args: &[&str]) -> Outcome {
        let args = [&["cp", "--json"], args].concat();
        self.run(&args).assert_succeeded()
    }

    /// Returns the path of an object's file at the server.
    pub(crate) fn object(&self, key: &str) -> PathBuf {
        self.scratch.at("store/data").join(key)
    }

    /// Returns the keys of all objects.
    pub(crate) fn keys(&self) -> Vec<String> {
        let listed = self
            .run(&["ls", "-a", "--recursive", "--json", "s3://data/"])
            .assert_succeeded();
        let entries = listed
            .events()
            .into_iter()
            .filter(|event| event["kind"] == "file");
        entries
            .map(|event| event["path"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Writes a file below the scratch directory.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.scratch.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Reads a file below the scratch directory.
    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.scratch.at(path)).unwrap()
    }
}

/// Returns the path of a program that `make test` builds.
pub(crate) fn tool(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_lighthaul"))
        .ancestors()
        .nth(2)
        .unwrap();
    target.join("tools").join(name)
}

/// Returns an address of this host with a port that is free now.
pub(crate) fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}
