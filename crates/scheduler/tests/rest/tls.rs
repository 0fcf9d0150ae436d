//! HTTPS, with and without trust in the key of the host.

use std::net::SocketAddr;

use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls::fingerprint;
use lighthaul_scheduler::certificate::ServerCertificate;

use crate::test_server::{Setup, TestServer, bytes};

fn pinned(test_server: &TestServer, expected: Fingerprint) -> Client {
    let known = ServerTrust {
        by_certificate: false,
        by_key: Box::new(move |shown| {
            (shown == expected)
                .then_some(())
                .ok_or_else(|| format!("it shows {shown}"))
        }),
    };
    Client::new(&test_server.url(), known, Some("ada".to_owned())).unwrap()
}

#[test]
fn client_trusts_only_the_pinned_key() {
    let identity = Identity::generate();
    let key = fingerprint(&identity).unwrap();
    let test_server = TestServer::of(Setup {
        certificate: ServerCertificate::SelfSigned(identity),
        ..Setup::default()
    });
    let made = pinned(&test_server, key)
        .reserve(&bytes(1_000_000))
        .unwrap();
    assert_eq!(
        pinned(&test_server, key).reservation(made.id).unwrap(),
        made
    );
    let other = fingerprint(&Identity::generate()).unwrap();
    let failure = pinned(&test_server, other)
        .reservation(made.id)
        .unwrap_err();
    assert!(
        matches!(&failure, ClientError::Untrusted { why, .. } if why.contains(&key.to_string())),
        "{failure}"
    );
    // the certificate is self-signed
    let failure = test_server.client("ada").reservation(made.id).unwrap_err();
    assert!(
        failure.to_string().contains("not signed by an authority"),
        "{failure}"
    );
}

#[test]
fn plain_request_to_a_tls_server_names_the_remedy() {
    let test_server = TestServer::of(Setup {
        certificate: ServerCertificate::SelfSigned(Identity::generate()),
        ..Setup::default()
    });
    let trust = ServerTrust {
        by_certificate: true,
        by_key: Box::new(|_| Ok(())),
    };
    let url = test_server.url().replace("https://", "http://");
    let client = Client::new(&url, trust, Some("ada".to_owned())).unwrap();
    let failure = client.reservation(1).unwrap_err().to_string();
    assert!(failure.contains("it uses TLS; use https://"), "{failure}");
}

#[test]
fn certificate_is_read_from_files() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&pair).unwrap();
    let folder = std::env::temp_dir().join(format!("lighthaul-pem-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let pem = |label: &str, der: &[u8]| {
        let text = data_encoding::BASE64.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    std::fs::write(&chain, pem("CERTIFICATE", certificate.der())).unwrap();
    std::fs::write(&key, pem("PRIVATE KEY", &pair.serialize_der())).unwrap();
    let expected = Fingerprint::of(rcgen::PublicKeyData::subject_public_key_info(&pair).as_slice());
    let certificate_files = ServerCertificate::Files { chain, key };
    let test_server = TestServer::of(Setup {
        certificate: certificate_files,
        ..Setup::default()
    });
    assert_eq!(
        pinned(&test_server, expected)
            .topology()
            .unwrap()
            .links
            .len(),
        5
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn plain_http_is_refused_on_a_network() {
    use lighthaul_booking::books::{Books, Config};
    use lighthaul_booking::store::sqlite::Sqlite;
    use lighthaul_booking_client::json::Timestamp;
    use lighthaul_scheduler::identity::Authenticator;
    use lighthaul_scheduler::serve::{Server, Settings};
    let store = Box::new(Sqlite::in_memory().unwrap());
    let books = Books::open(
        store,
        crate::test_server::topology(),
        Config::default(),
        || Timestamp(1),
    )
    .unwrap();
    let settings = Settings {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        certificate: ServerCertificate::Plain,
        insecure: false,
        authenticator: Authenticator {
            tokens: None,
            issuer: None,
        },
        books: std::sync::Arc::new(books),
        requests_per_second: 1,
        limits: lighthaul_scheduler::connections::Limits::default(),
        peers: ServerTrust::certificate(),
        circuits: None,
        jobs: None,
        nsi: None,
    };
    let why = Server::listen(settings).unwrap_err().to_string();
    assert!(why.contains("--insecure"), "{why}");
}
