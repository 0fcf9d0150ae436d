//! TLS connections to a server with a certificate of the test.

use lighthaul_booking::books::{Books, Config};
use lighthaul_booking::store::postgres::Postgres;
use lighthaul_booking_client::json::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::server::Server;
use crate::world::{BEGIN, ada, all_for, link};

#[test]
fn only_a_trusted_certificate_is_accepted() {
    let Some(server) = Server::start() else {
        return;
    };
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = params.self_signed(&authority).unwrap();
    let issuer = Issuer::new(params, authority);
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let params = CertificateParams::new(names).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let roots = server.file("root.pem", &pem("CERTIFICATE", root.der()));
    let chain = server.file("server.pem", &pem("CERTIFICATE", certificate.der()));
    let key = server.file("server.key", &pem("PRIVATE KEY", &key.serialize_der()));
    server.control("stop", "fast");
    let port = server.begin_on_port(&format!(
        "-c listen_addresses=127.0.0.1 -c ssl=on -c ssl_cert_file={} -c ssl_key_file={}",
        chain.display(),
        key.display()
    ));
    let at = |host: &str, more: &str| format!("postgres://lighthaul@{host}:{port}/postgres?{more}");
    let trusting = format!("sslmode=verify-full&sslrootcert={}", roots.display());
    let url = at("127.0.0.1", &trusting);
    let store = Box::new(Postgres::open(&url, "http://one").unwrap());
    let books = Books::open(store, link(1000), Config::default(), || Timestamp(BEGIN)).unwrap();
    books.reserve(&ada(), &all_for(10), None).unwrap();
    let mut client = postgres::Client::connect(&at("127.0.0.1", ""), postgres::NoTls).unwrap();
    let query = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE ssl AND usename = 'lighthaul'";
    let encrypted: i64 = client.query_one(query, &[]).unwrap().get(0);
    assert_eq!(encrypted, 1);
    // the certificate is not signed by a trusted authority, and is for another name
    for url in [
        at("127.0.0.1", "sslmode=require"),
        at("localhost", &trusting),
    ] {
        let why = Postgres::open(&url, "").unwrap_err().to_string();
        assert!(why.contains("certificate"), "{why}");
        assert!(why.contains("sslrootcert in its URL"), "{why}");
    }
    let missing = at("127.0.0.1", "sslmode=require&sslrootcert=/nowhere");
    let why = Postgres::open(&missing, "").unwrap_err().to_string();
    assert!(why.contains("cannot use /nowhere"), "{why}");
}

#[test]
fn server_without_tls_is_refused_if_tls_is_required() {
    let Some(server) = Server::start() else {
        return;
    };
    server.control("stop", "fast");
    let port = server.begin_on_port("-c listen_addresses=127.0.0.1");
    let url = |mode| format!("postgres://lighthaul@127.0.0.1:{port}/postgres?sslmode={mode}");
    let why = Postgres::open(&url("require"), "").unwrap_err().to_string();
    assert!(why.contains("TLS"), "{why}");
    Postgres::open(&url("prefer"), "").unwrap();
    Postgres::open(&url("disable"), "").unwrap();
}

/// Returns PEM as `OpenSSL` reads it.
fn pem(label: &str, octets: &[u8]) -> String {
    let text = data_encoding::BASE64.encode(octets);
    let lines: Vec<_> = text
        .as_bytes()
        .chunks(64)
        .map(String::from_utf8_lossy)
        .collect();
    let text = lines.join("\n");
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}
