//! Credentials: from profiles and programs, wrong ones, and those that expire during a copy.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::proxy::{Fault, Proxy};
use crate::running::Running;
use crate::server::{KEYS, Server};

/// The command without credentials in its environment.
fn bare(server: &Server, address: &str, args: &[&str]) -> Command {
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
            std::fs::write(&file, &renewed).unwrap();
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
