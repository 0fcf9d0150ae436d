//! Credentials: from profiles and programs, wrong ones, and those that expire during a copy.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::proxy::{Fault, Proxy};
use crate::running::{Running, becomes_true};
use crate::server::{KEYS, Server};

/// The command without credentials in its environment.
pub(crate) fn bare(server: &Server, address: &str, args: &[&str]) -> Command {
    let mut command = server.command_at(address, args);
    command
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_SECRET_ACCESS_KEY");
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

#[test]
fn profiles_have_credentials_and_endpoints() {
    let Some(server) = Server::start("profiles") else {
        return;
    };
    server.write("f", "x");
    let [key, secret] = KEYS;
    let endpoint = &server.address;
    server.write(
        "home/.aws/credentials",
        &format!("[near]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"),
    );
    let printed =
        format!("{{\"Version\":1,\"AccessKeyId\":\"{key}\",\"SecretAccessKey\":\"{secret}\"}}");
    server.write(
        "home/.aws/config",
        &format!(
            "[profile near]\nendpoint_url = http://{endpoint}\n[profile program]\nendpoint_url = http://{endpoint}\n\
             credential_process = echo '{printed}'\n[profile broken]\nendpoint_url = http://{endpoint}\ncredential_process = false\n"
        ),
    );
    let run = |profile: &str| {
        let mut command = bare(&server, endpoint, &["cp", "f", "s3://data/"]);
        command
            .env_remove("AWS_ENDPOINT_URL")
            .env("AWS_PROFILE", profile);
        Running::start(command).finish()
    };
    run("near").assert_succeeded();
    run("program").assert_succeeded();
    run("broken").assert_failed(13, "credential_process of profile broken ends with");
    run("other").assert_failed(13, "there is no profile other");
}

#[test]
fn missing_and_wrong_credentials_say_what_to_do() {
    let Some(server) = Server::start("wrong") else {
        return;
    };
    server.write("f", "x");
    let mut command = server.command_at(&server.address, &["cp", "f", "s3://data/"]);
    command.env("AWS_SECRET_ACCESS_KEY", "wrong");
    Running::start(command)
        .finish()
        .assert_failed(13, "SignatureDoesNotMatch");
    let mut command = server.command_at(&server.address, &["cp", "f", "s3://data/"]);
    command.env("AWS_ENDPOINT_URL", "127.0.0.1:1");
    Running::start(command)
        .finish()
        .assert_failed(1, "cannot use AWS_ENDPOINT_URL");
}

#[test]
fn credentials_that_expire_are_read_again() {
    let Some(server) = Server::start("expired") else {
        return;
    };
    server.scratch.file("large", (40 << 20) + 1);
    let [key, secret] = KEYS;
    let file = server.scratch.at("home/.aws/credentials");
    server.write(
        "home/.aws/credentials",
        &format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = old\n"),
    );
    let has_expired = Arc::new(AtomicBool::new(false));
    let renewed =
        format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n");
    let expired = Arc::clone(&has_expired);
    // the old secret is refused as expired, after the new one has been written
    let proxy = Proxy::start(&server.address, move |head, nth| {
        if nth == 0 && !head.starts_with("HEAD ") && !expired.swap(true, Relaxed) {
            fs::write(&file, &renewed).unwrap();
            return Fault::Answer(400, "<Error><Code>ExpiredToken</Code></Error>".to_owned());
        }
        Fault::Pass
    });
    let command = bare(&server, &proxy.address, &["cp", "large", "s3://data/"]);
    Running::start(command).finish().assert_succeeded();
    assert!(has_expired.load(Relaxed));
    let never = Proxy::start(&server.address, |_, _| {
        Fault::Answer(400, "<Error><Code>ExpiredToken</Code></Error>".to_owned())
    });
    let command = bare(&server, &never.address, &["cp", "large", "s3://data/"]);
    Running::start(command)
        .finish()
        .assert_failed(13, "have expired");
}

/// A shell command that starts a child, writes its process ID to the file `child`, and waits for it.
const HANGS: &str = "sleep 900 & echo $! > new; mv new child; wait";

/// Interrupts the command once its program hangs, and asserts that no process of the program is left.
fn assert_interrupted(server: &Server, command: Command) {
    let file = server.scratch.at("child");
    let running = Running::start(command);
    becomes_true("the program hangs", || file.exists());
    let child = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    running.signal("INT");
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(20), "{outcome:?}");
    let stat = Path::new("/proc").join(child.trim()).join("stat");
    becomes_true("the child of the program has ended", || {
        // a process without a parent that waits for it stays as a zombie
        let stat = fs::read_to_string(&stat);
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn interrupted_copy_and_list_end_a_program_that_hangs() {
    let Some(server) = Server::start("hanging") else {
        return;
    };
    server.write("f", "x");
    let config = format!("[default]\ncredential_process = {HANGS}\n");
    server.write("home/.aws/config", &config);
    for args in [&["cp", "f", "s3://data/"][..], &["ls", "s3://data/"]] {
        assert_interrupted(&server, bare(&server, &server.address, args));
    }
}

#[test]
fn interrupted_copy_ends_a_program_that_hangs_when_credentials_expire() {
    let Some(server) = Server::start("hanging-renewal") else {
        return;
    };
    let printed = r#"{"AccessKeyId":"old","SecretAccessKey":"old"}"#;
    let program = format!("if mkdir ran; then echo '{printed}'; else {HANGS}; fi");
    let config = format!("[default]\ncredential_process = {program}\n");
    server.write("home/.aws/config", &config);
    for nth in 0..40 {
        server.write(&format!("d/{nth}"), "x");
    }
    let expired = Proxy::start(&server.address, |_, _| {
        Fault::Answer(400, "<Error><Code>ExpiredToken</Code></Error>".to_owned())
    });
    let command = bare(&server, &expired.address, &["cp", "d/", "s3://data/"]);
    assert_interrupted(&server, command);
}

#[test]
fn program_without_new_credentials_is_not_run_for_each_request() {
    let Some(server) = Server::start("unrenewed") else {
        return;
    };
    for nth in 0..40 {
        server.write(&format!("d/{nth}"), "x");
    }
    let [key, secret] = KEYS;
    let printed = format!("{{\"AccessKeyId\":\"{key}\",\"SecretAccessKey\":\"{secret}\"}}");
    let expired = Proxy::start(&server.address, |head, _| {
        if head.starts_with("PUT ") {
            return Fault::Answer(400, "<Error><Code>ExpiredToken</Code></Error>".to_owned());
        }
        Fault::Pass
    });
    for later in ["exit 3", &format!("echo '{printed}'")] {
        let program = format!(
            "echo >> runs; if test $(wc -l < runs) -eq 1; then echo '{printed}'; else {later}; fi"
        );
        let config = format!("[default]\ncredential_process = {program}\n");
        server.write("home/.aws/config", &config);
        server.write("runs", "");
        let before = expired.count("PUT ");
        let command = bare(&server, &expired.address, &["cp", "d/", "s3://data/"]);
        let outcome = Running::start(command).finish();
        assert_eq!(outcome.code, Some(13), "{outcome:?}");
        assert!(outcome.said("have expired"), "{outcome:?}");
        assert_eq!(server.read("runs"), "\n\n", "{later}");
        let puts = expired.count("PUT ");
        assert!(puts >= before + 40, "{later}: {puts} requests");
    }
}
