//! A daemon before an object store, for tests.

use std::fs;

use crate::running::{Outcome, Running};
use crate::server::Server;

/// Size of a file of eight parts.
pub(crate) const LARGE: u64 = (60 << 20) + 5;

/// A daemon that serves the bucket of a server as `/store`.
pub(crate) struct Daemon<'a> {
    pub(crate) server: &'a Server,
    pub(crate) process: Running,
    /// Beginning of all places, as in `lh://127.0.0.1:4810`.
    pub(crate) host: String,
    pub(crate) pin: String,
}

impl<'a> Daemon<'a> {
    /// Starts a daemon for the store at `address`. `rights` are options of `lighthaul allow`.
    pub(crate) fn start(server: &'a Server, address: &str, rights: &[&str]) -> Self {
        Self::start_with(server, address, (rights, &[]))
    }

    /// Starts a daemon with these rights of its client, and more options.
    pub(crate) fn start_with(
        server: &'a Server,
        address: &str,
        (rights, options): (&[&str], &[&str]),
    ) -> Self {
        let scratch = &server.scratch;
        scratch.folder("root");
        scratch.folder("spool");
        let run = |args: &[&str]| server.run(args).assert_succeeded();
        let key = run(&["key", "--key", "client-key"]).out.concat();
        let allow = ["allow", "--allowed", "allowed", &key, "tester"];
        run(&[&allow, rights].concat());
        let args = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--root",
            "root",
            "--allowed",
            "allowed",
            "--key",
            "host-key",
            "--store",
            "store=s3://data/in",
            "--spool",
            "spool",
        ];
        let args = [&args, options].concat();
        let mut process = Running::start(server.command_at(address, &args));
        let line = process.says("listening on ");
        let port = line.split("listening on ").nth(1).unwrap();
        let port = port.split(' ').next().unwrap().rsplit(':').next().unwrap();
        let line = process.says("this host's key is ");
        Self {
            server,
            host: format!("lh://127.0.0.1:{port}"),
            pin: line[line.find("sha256:").unwrap()..][..71].to_owned(),
            process,
        }
    }

    /// Starts a copy. `HOST` in its arguments stands for the daemon.
    pub(crate) fn start_copy(&self, protocol: &str, args: &[&str]) -> Running {
        let args: Vec<String> = args
            .iter()
            .map(|arg| arg.replace("HOST", &self.host))
            .collect();
        let fixed = ["cp", "--json", "--key", "client-key", "--pin", &self.pin];
        let args = fixed.into_iter().chain(args.iter().map(String::as_str));
        let args: Vec<&str> = args.collect();
        let mut command = self.server.command_at(&self.server.address, &args);
        if !protocol.is_empty() {
            command.env("LIGHTHAUL_PROTOCOL", protocol);
        }
        // the client has no way to the store
        command.env_remove("AWS_ACCESS_KEY_ID");
        Running::start(command)
    }

    pub(crate) fn copy(&self, protocol: &str, args: &[&str]) -> Outcome {
        self.start_copy(protocol, args).finish()
    }

    pub(crate) fn is_equal(&self, file: &str, key: &str) -> bool {
        let stored = fs::read(self.server.object(key)).unwrap();
        fs::read(self.server.scratch.at(file)).unwrap() == stored
    }
}

/// Returns true if the store has parts of uploads that did not end.
pub(crate) fn has_parts(server: &Server) -> bool {
    let mut folders = vec![server.scratch.at("store/data/.sgwtmp")];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(folder).into_iter().flatten().flatten() {
            if item.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(item.path());
            } else {
                return true;
            }
        }
    }
    false
}
