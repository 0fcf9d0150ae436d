//! Tokens of an issuer whose keys are fetched.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use data_encoding::BASE64URL_NOPAD;
use lighthaul_booking_client::client::Filter;
use lighthaul_booking_client::https::fetcher;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_scheduler::identity::{Issuer, Keys};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::test_server::{Setup, TestServer, bytes};

/// Issuer on loopback that can change its keys.
struct FakeIssuer {
    address: SocketAddr,
    keys: Arc<Mutex<Vec<Value>>>,
}

impl FakeIssuer {
    fn new() -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn at(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let keys = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&keys);
        thread::spawn(move || {
            for tcp in listener.incoming() {
                let mut tcp = tcp.unwrap();
                let mut some = [0; 4096];
                let _ = tcp.read(&mut some).unwrap();
                let body = json!({"keys": *shown.lock().unwrap()}).to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                tcp.write_all((head + &body).as_bytes()).unwrap();
            }
        });
        Self { address, keys }
    }

    /// Publishes a new key.
    fn key(&self, kid: &str) -> Ed25519KeyPair {
        let pair = pair();
        self.show(kid, &pair);
        pair
    }

    /// Publishes a key.
    fn show(&self, kid: &str, pair: &Ed25519KeyPair) {
        let x = BASE64URL_NOPAD.encode(pair.public_key().as_ref());
        self.keys
            .lock()
            .unwrap()
            .push(json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x}));
    }

    fn test_server(&self) -> TestServer {
        test_server(self.address)
    }
}

/// Returns a scheduler that trusts the issuer at `address`.
fn test_server(address: SocketAddr) -> TestServer {
    let issuer = Issuer {
        name: "https://idp.example.org/".to_owned(),
        audiences: vec!["lighthaul".to_owned()],
        users: None,
        operators: Some("operate".to_owned()),
        admins: None,
    };
    let keys = Keys::new(fetcher().unwrap(), format!("http://{address}/jwks"));
    TestServer::of(Setup {
        issuer: Some((issuer, keys)),
        ..Setup::default()
    })
}

fn pair() -> Ed25519KeyPair {
    let octets = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(octets.as_ref()).unwrap()
}

/// Returns a token that is valid for an hour from `at`, in seconds since 1970.
fn token(pair: &Ed25519KeyPair, kid: &str, at: u64, scope: &str) -> String {
    let encode = |part: Value| BASE64URL_NOPAD.encode(part.to_string().as_bytes());
    let head = encode(json!({"alg": "EdDSA", "kid": kid}));
    let claims = encode(
        json!({"iss": "https://idp.example.org/", "sub": "ada", "aud": "lighthaul",
                               "iat": at, "exp": at + 3600, "scope": scope}),
    );
    let signature =
        BASE64URL_NOPAD.encode(pair.sign(format!("{head}.{claims}").as_bytes()).as_ref());
    format!("{head}.{claims}.{signature}")
}

#[test]
fn keys_are_fetched_again_soon_after_the_issuer_recovers() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let test_server = test_server(address);
    let pair = pair();
    let ada = token(&pair, "one", now(), "");
    let ask = || test_server.raw("GET", "/v1/reservations", &ada, "");
    let (status, head, _) = ask();
    assert_eq!(status, 503, "{head}");
    assert!(head.to_lowercase().contains("retry-after: 5"), "{head}");
    let issuer_server = FakeIssuer::at(TcpListener::bind(address).unwrap());
    issuer_server.show("one", &pair);
    let answered = (0..100).any(|_| {
        thread::park_timeout(std::time::Duration::from_millis(100));
        ask().0 == 200
    });
    assert!(answered, "the keys were not fetched again");
}

fn now() -> u64 {
    unix_nanos() / 1_000_000_000
}

#[test]
fn only_valid_tokens_of_the_issuer_may_book() {
    let issuer_server = FakeIssuer::new();
    let pair = issuer_server.key("one");
    let test_server = issuer_server.test_server();
    let made = test_server
        .client(&token(&pair, "one", now(), "openid"))
        .reserve(&bytes(1_000_000))
        .unwrap();
    assert_eq!(made.owner, "ada@idp.example.org");
    // a local identity with the same name
    assert_eq!(
        test_server.client("ada").reserve(&bytes(1)).unwrap().owner,
        "ada"
    );
    let operator = test_server.client(&token(&pair, "one", now(), "openid operate"));
    assert_eq!(
        operator
            .reservations(&Filter::default(), None)
            .unwrap()
            .items
            .len(),
        2
    );
    let forger = FakeIssuer::new().key("one");
    for (token, says) in [
        (
            token(&forger, "one", now(), "operate"),
            "not by a key of the issuer",
        ),
        (token(&pair, "one", now() - 7200, "operate"), "expired"),
        (
            token(&pair, "one", now() + 7200, "operate"),
            "is not valid yet",
        ),
        (
            token(&pair, "two", now(), "operate"),
            "not by a key of the issuer",
        ),
    ] {
        let problem = test_server.problem("GET", "/v1/reservations", &token, "");
        assert_eq!(problem.status, 401);
        assert!(problem.detail.contains(says), "{problem:?}");
    }
}

#[test]
fn unreachable_issuer_blocks_only_its_own_tokens() {
    let issuer_server = FakeIssuer::new();
    let pair = issuer_server.key("one");
    // port 1 has no listener
    let test_server = test_server(SocketAddr::from(([127, 0, 0, 1], 1)));
    let problem = test_server.problem(
        "GET",
        "/v1/reservations",
        &token(&pair, "one", now(), ""),
        "",
    );
    assert_eq!(problem.status, 503);
    assert!(
        problem.detail.contains("are not available yet"),
        "{problem:?}"
    );
    assert!(test_server.client("ada").topology().is_ok());
}
