//! Azure Blob Storage, by a server that imitates it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use data_encoding::BASE64;
use lighthaul_testkit::{lacks, lacks_tool};
use ring::hmac;

use crate::proxy::{Fault, Proxy};
use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::{Scratch, dress, names};
use crate::server::{free_address, tool};

/// A server of Azure Blob Storage with the container `data`.
struct Azure {
    _process: Running,
    scratch: Scratch,
    address: String,
}

impl Azure {
    /// Starts a server for the test `name`, or skips the test if there is none.
    fn start(name: &str) -> Option<Self> {
        let program = tool("azurite/node_modules/.bin/azurite-blob");
        let missing = || format!("needs {}: run make test", program.display());
        if lacks(name, program.exists().then_some(()).ok_or_else(missing))
            || lacks_tool(name, "node")
        {
            return None;
        }
        let scratch = Scratch::new(&format!("objects-{name}"));
        scratch.folder("home");
        let address = free_address();
        let (host, port) = address.split_once(':')?;
        let mut command = Command::new(program);
        command.args([
            "--silent",
            "--disableTelemetry",
            "--skipApiVersionCheck",
            "--blobHost",
            host,
            "--blobPort",
            port,
            "--location",
        ]);
        command.arg(scratch.folder("store"));
        let process = Running::start(command);
        becomes_true("azurite answers", || TcpStream::connect(&address).is_ok());
        create_container(&address);
        Some(Self {
            _process: process,
            scratch,
            address,
        })
    }

    /// Runs the command with these arguments.
    fn run(&self, args: &[&str]) -> Outcome {
        run_at(&self.address, &self.scratch.at(""), args)
    }

    /// Runs the command with these arguments. Writes another object when a request matches.
    fn run_beside(&self, fits: fn(&str) -> bool, key: &str, args: &[&str]) -> Outcome {
        let (address, folder) = (self.address.clone(), self.scratch.at(""));
        let place = format!("az://data/{key}");
        fs::write(folder.join("other"), "other").unwrap();
        let seen = AtomicBool::new(false);
        let proxy = Proxy::start(&self.address, move |head, _| {
            if fits(head) && !seen.swap(true, Relaxed) {
                run_at(&address, &folder, &["cp", "other", &place]).assert_succeeded();
            }
            Fault::Pass
        });
        run_at(&proxy.address, &self.scratch.at(""), args)
    }

    /// Returns the content of an object.
    fn content(&self, key: &str) -> Vec<u8> {
        let place = format!("az://data/{key}");
        self.run(&["cp", &place, "content"]).assert_succeeded();
        let path = self.scratch.at("content");
        let content = fs::read(&path).unwrap();
        fs::remove_file(path).unwrap();
        content
    }
}

fn run_at(address: &str, folder: &Path, args: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lighthaul"));
    command.args(args).current_dir(folder);
    command
        .env("HOME", folder.join("home"))
        .env("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
        .env("AZURE_STORAGE_ACCOUNT_KEY", KEY)
        .env(
            "AZURE_STORAGE_ENDPOINT",
            format!("http://{address}/{ACCOUNT}"),
        )
        .env("AZURE_STORAGE_USE_EMULATOR", "true")
        .env("AZURITE_BLOB_STORAGE_URL", format!("http://{address}"));
    Running::start(command).finish()
}

#[test]
fn tree_goes_to_azure_and_comes_back() {
    let Some(azure) = Azure::start("azure") else {
        return;
    };
    round_trip(&azure.scratch, "az://data", |args| azure.run(args));
}

#[test]
fn object_that_appears_meanwhile_in_azure_stays() {
    let Some(azure) = Azure::start("azure-appears") else {
        return;
    };
    azure.scratch.file("large", 9 << 20);
    azure.scratch.file("small", 9);
    let parts: fn(&str) -> bool = |head| head.contains("comp=block&");
    let puts: fn(&str) -> bool = |head| head.starts_with("PUT ");
    let copies: fn(&str) -> bool = |head| head.contains("x-ms-copy-source");
    azure
        .run(&["cp", "large", "small", "az://data/from/"])
        .assert_succeeded();
    for (option, key, fits, source) in [
        ("--ignore-existing", "a", parts, "large"),
        ("--ignore-existing", "b", puts, "small"),
        ("--ignore-existing", "c", copies, "az://data/from/large"),
        ("--ignore-existing", "d", copies, "az://data/from/small"),
        ("--update", "e", parts, "large"),
        ("--update", "f", copies, "az://data/from/large"),
    ] {
        let place = format!("az://data/{key}");
        let args = ["cp", "--json", "-T", option, source, &place];
        let summary = azure
            .run_beside(fits, key, &args)
            .assert_succeeded()
            .event("summary");
        assert_eq!(summary["entries"], u64::from(option == "--update"), "{key}");
        assert!(azure.content(key) == b"other", "{key}");
    }
}

#[test]
fn object_that_changes_meanwhile_in_azure_stays() {
    let Some(azure) = Azure::start("azure-changes") else {
        return;
    };
    azure.scratch.file("old", 7);
    dress(&azure.scratch.at("old"), 0o644, 1_500_000_000);
    for (name, len) in [("large", 9 << 20), ("small", 9)] {
        azure.scratch.file(name, len);
        dress(&azure.scratch.at(name), 0o644, 1_600_000_000);
    }
    azure
        .run(&["cp", "large", "small", "az://data/from/"])
        .assert_succeeded();
    let parts: fn(&str) -> bool = |head| head.contains("comp=block&");
    let puts: fn(&str) -> bool = |head| head.starts_with("PUT ");
    for (key, fits, source) in [
        ("a", parts, "large"),
        ("b", puts, "small"),
        ("c", parts, "az://data/from/large"),
        ("d", puts, "az://data/from/small"),
    ] {
        let place = format!("az://data/{key}");
        let args = ["cp", "-T", "--update", source, &place];
        azure.run(&["cp", "-T", "old", &place]).assert_succeeded();
        azure.run_beside(fits, key, &args).assert_succeeded();
        assert!(azure.content(key) == b"other", "{key}");
        azure.run(&["cp", "-T", "old", &place]).assert_succeeded();
        azure.run(&args).assert_succeeded();
        assert!(azure.content(key).len() >= 9, "{key}");
    }
}

/// Copies a tree to a bucket and back, and changes it.
pub(crate) fn round_trip(scratch: &Scratch, bucket: &str, run: impl Fn(&[&str]) -> Outcome) {
    scratch.folder("t/sub");
    scratch.file("t/small", 5);
    scratch.file("t/sub/large", (20 << 20) + 1);
    let target = format!("{bucket}/p/");
    let up = run(&["cp", "--json", "t/", &target]).assert_succeeded();
    assert_eq!(up.event("summary")["entries"], 2);
    assert_eq!(up.event("summary")["verified"], false);
    let again = run(&["cp", "--json", "t/", &target]).assert_succeeded();
    assert_eq!(again.event("summary")["unchanged"], 2, "{again:?}");
    run(&["cp", &target, "back"]).assert_succeeded();
    for name in ["small", "sub/large"] {
        let read = |folder: &str| fs::read(scratch.at(folder).join(name)).unwrap();
        assert!(read("t") == read("back"), "{name}");
    }
    assert_eq!(names(&scratch.at("back")), ["small", "sub"]);
    let listed = run(&["ls", &format!("{bucket}/p")]).assert_succeeded();
    assert_eq!(listed.out, ["small", "sub"]);
    fs::remove_file(scratch.at("t/small")).unwrap();
    run(&["cp", "--delete", "--yes", "t/", &target]).assert_succeeded();
    run(&["cp", &format!("{bucket}/p/small"), "x"]).assert_failed(3, "there is no such object");
    run(&["rm", "-r", &format!("{bucket}/p")]).assert_succeeded();
    run(&["ls", &format!("{bucket}/p")]).assert_failed(3, "there is no such object");
}

/// Creates the container `data`.
fn create_container(address: &str) {
    let (date, version) = ("Sat, 28 Nov 2026 10:00:00 GMT", "2021-08-06");
    let signed = format!(
        "PUT{}x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}/{ACCOUNT}/data\nrestype:container",
        "\n".repeat(12)
    );
    let key = BASE64.decode(KEY.as_bytes()).unwrap();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), signed.as_bytes());
    let signature = BASE64.encode(tag.as_ref());
    let head = format!(
        "PUT /{ACCOUNT}/data?restype=container HTTP/1.1\r\nHost: {address}\r\nx-ms-date: {date}\r\nx-ms-version: {version}\r\n\
         Authorization: SharedKey {ACCOUNT}:{signature}"
    );
    let answer = request(address, &head, "");
    assert!(answer.contains(" 201 "), "{answer}");
}

/// Sends a request, and returns the answer.
pub(crate) fn request(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Account of the emulator, and its key, which is published.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
