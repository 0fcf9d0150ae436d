//! Azure Blob Storage, by a server that imitates it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use data_encoding::BASE64;
use lighthaul_testkit::{lacks, lacks_tool};
use ring::hmac;

use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::{Scratch, names};
use crate::server::{free_address, tool};

#[test]
fn tree_goes_to_azure_and_comes_back() {
    let program = tool("azurite/node_modules/.bin/azurite-blob");
    let missing = || format!("needs {}: run make test", program.display());
    if lacks("azure", program.exists().then_some(()).ok_or_else(missing))
        || lacks_tool("azure", "node")
    {
        return;
    }
    let scratch = Scratch::new("objects-azure");
    let address = free_address();
    let (host, port) = address.split_once(':').unwrap();
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
    let _server = Running::start(command);
    becomes_true("azurite answers", || TcpStream::connect(&address).is_ok());
    create_container(&address);
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lighthaul"));
        command.args(args).current_dir(scratch.at(""));
        command
            .env("HOME", scratch.folder("home"))
            .env("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
            .env("AZURE_STORAGE_ACCOUNT_KEY", KEY)
            .env(
                "AZURE_STORAGE_ENDPOINT",
                format!("http://{address}/{ACCOUNT}"),
            )
            .env("AZURE_STORAGE_USE_EMULATOR", "true")
            .env("AZURITE_BLOB_STORAGE_URL", format!("http://{address}"));
        Running::start(command).finish()
    };
    round_trip(&scratch, "az://data", run);
}

/// Copies a tree to a bucket and back, and changes it.
fn round_trip(scratch: &Scratch, bucket: &str, run: impl Fn(&[&str]) -> Outcome) {
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
fn request(address: &str, head: &str, body: &str) -> String {
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
