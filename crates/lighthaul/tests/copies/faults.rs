//! Errors of copies: each has a kind, and a sentence with what to do.

use lighthaul::{Client, Code, CopyRequest, Error, Fault, Place};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls;

use crate::host::Host;

fn failure(client: &Client, request: CopyRequest) -> Error {
    client.copy(request).unwrap().wait().unwrap_err()
}

#[test]
fn wrong_or_unknown_key_is_a_fault_of_permission() {
    let host = Host::start("keys", &["a"]);
    let file = host.file("x", 10);
    let mut settings = host.settings("a");
    let other = tls::fingerprint(&Identity::generate()).unwrap();
    settings.route.daemon.pin = Some(other.to_string());
    let error = failure(&Client::new(settings), host.push(&file, "x"));
    assert_eq!(error.code(), Code::Permission, "{error}");
    let mut settings = host.settings("a");
    settings.route.daemon.key = Some(host.folder.join("stranger.key"));
    let error = failure(&Client::new(settings), host.push(&file, "x"));
    assert_eq!(error.code(), Code::Permission, "{error}");
    assert!(error.text().contains("lighthaul allow"), "{error}");
}

#[test]
fn missing_source_is_named() {
    let host = Host::start("missing", &["a"]);
    let absent = host.folder.join("absent");
    let error = failure(&host.client("a"), host.push(&absent, "x"));
    assert_eq!(error.code(), Code::Open, "{error}");
    assert!(error.text().contains("absent"), "{error}");
    let pull = CopyRequest::new(
        [host.place("absent")],
        Place::Here(host.folder.join("back")),
    );
    let error = failure(&host.client("a"), pull);
    assert_eq!(error.code(), Code::Open, "{error}");
    assert!(!host.folder.join("back").exists());
}

#[test]
fn faults_of_a_request_are_found_by_their_type() {
    let host = Host::start("faults", &["a"]);
    let client = host.client("a");
    let here = || Place::Here("x".into());
    let error = failure(&client, CopyRequest::new([], host.place("x")));
    assert!(matches!(error.fault(), Some(Fault::NoSource)));
    let mut request = CopyRequest::new([here(), here()], host.place("x"));
    request.exact = true;
    let error = failure(&client, request);
    assert!(matches!(error.fault(), Some(Fault::ExactTarget)), "{error}");
    assert_eq!(error.code(), Code::Usage);
    let error = failure(&client, CopyRequest::new([here()], here()));
    assert_eq!(error.code(), Code::Usage);
}

#[test]
fn observer_that_panics_ends_only_its_copy() {
    let host = Host::start("panic", &["a"]);
    let file = host.file("x", 10);
    let client = host.client("a");
    let broken = client.copy_observed(host.push(&file, "x"), |_| panic!("broken on purpose"));
    assert_eq!(broken.unwrap().wait().unwrap_err().code(), Code::Internal);
    let request = host.push(&file, "y");
    assert_eq!(client.copy(request).unwrap().wait().unwrap().entries, 1);
}
