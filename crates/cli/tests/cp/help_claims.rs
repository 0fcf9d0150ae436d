//! Behavior that the help of `scheduler`, `book` and `stream --late` promises.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_lab::emulate::available;
use lighthaul_testkit::{Turn, lacks};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::booking::{Booking, one};
use crate::far::{Far, Near};
use crate::running::{Running, becomes_true};

/// Splits a line into arguments.
fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Requests a reservation or a quote from Paris to Milan, without a margin, as JSON.
pub(crate) fn ask(booking: &Booking, token: &str, line: &str) -> Value {
    let line = format!("{line} --json --margin 0");
    one(&booking.run(token, &words(&line)).assert_succeeded())
}

/// The rates of a grant in Mb/s, in the order of time.
pub(crate) fn rates(granted: &Value) -> Vec<u64> {
    let steps = granted["steps"].as_array().unwrap().iter();
    steps
        .map(|step| step["rate_bps"].as_u64().unwrap() / 1_000_000)
        .collect()
}

/// Returns the start of a grant. Its text has a fixed form, so it compares like the time.
fn begins(granted: &Value) -> String {
    granted["steps"][0]["from"].as_str().unwrap().to_owned()
}

/// An HTTP server on loopback that answers every request with `body`.
fn answering(body: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut tcp in listener.incoming().map_while(Result::ok) {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let lines = BufReader::new(&tcp).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            // a client that has disconnected needs no response
            tcp.write_all((head + &body).as_bytes()).ok();
        }
    });
    address
}

/// Options of a scheduler that trusts the issuer with this key.
pub(crate) fn trusting(key: &Ed25519KeyPair) -> [String; 5] {
    let x = BASE64URL_NOPAD.encode(key.public_key().as_ref());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": x});
    let address = answering(json!({"keys": [jwk]}).to_string());
    let jwks = format!("http://{address}/jwks");
    ["--no-tls", "--issuer", ISSUER, "--jwks", &jwks].map(str::to_owned)
}

pub(crate) const ISSUER: &str = "https://idp.example.org/";

/// A new key of an issuer.
pub(crate) fn issuer_key() -> Ed25519KeyPair {
    let octets = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(octets.as_ref()).unwrap()
}

/// A token of ada with these claims, signed by `key`.
pub(crate) fn signed(key: &Ed25519KeyPair, iss: &str, aud: &str, exp: u64) -> String {
    signed_claims(
        key,
        json!({"iss": iss, "sub": "ada", "aud": aud, "exp": exp}),
    )
}

/// A token with these claims, signed by `key`.
fn signed_claims(key: &Ed25519KeyPair, claims: Value) -> String {
    let encode = |part: Value| BASE64URL_NOPAD.encode(part.to_string().as_bytes());
    let head = encode(json!({"alg": "EdDSA", "kid": "one"}));
    let text = format!("{head}.{}", encode(claims));
    let signature = BASE64URL_NOPAD.encode(key.sign(text.as_bytes()).as_ref());
    format!("{text}.{signature}")
}

#[test]
fn signed_token_is_accepted_from_its_issuer_for_its_audience_until_it_expires() {
    let key = issuer_key();
    let issuer = trusting(&key);
    let issuer = issuer.iter().map(String::as_str);
    let options: Vec<_> = issuer
        .chain(["--audience", "elsewhere,lighthaul"])
        .collect();
    let booking = Booking::start("promises-issuer", &options);
    let later = unix_nanos() / 1_000_000_000 + 3600;
    for audience in ["lighthaul", "elsewhere"] {
        let ada = signed(&key, ISSUER, audience, later);
        let booked = ask(&booking, &ada, "book paris milan --size 1MB");
        assert_eq!(booked["owner"], "ada@idp.example.org", "{audience}");
    }
    let rogue = "https://rogue.example.org/";
    for (token, says) in [
        (
            signed(&key, ISSUER, "other", later),
            "for another service: ask the issuer for one with audience elsewhere or lighthaul",
        ),
        (
            signed(&key, rogue, "lighthaul", later),
            "the token is from https://rogue.example.org/",
        ),
        (
            signed(&key, ISSUER, "lighthaul", later - 7200),
            "the token has expired",
        ),
        (
            signed(&issuer_key(), ISSUER, "lighthaul", later),
            "not by a key of the issuer",
        ),
    ] {
        let refused = booking.run(&token, &["reservations"]);
        refused.assert_failed(13, says);
    }
    // an issuer alone would admit tokens for another service
    let alone = ["scheduler", "--topology", "x", "--issuer", ISSUER];
    let alone = booking.near.lighthaul(&alone);
    booking.near.run(alone).assert_failed_to_parse();
}

#[test]
fn scopes_of_signed_tokens_map_to_the_roles_in_the_options() {
    let key = issuer_key();
    let scopes = "--audience lighthaul --user-scope book --operator-scope run --admin-scope rule";
    let issuer = trusting(&key);
    let issuer = issuer.iter().map(String::as_str);
    let options: Vec<_> = issuer.chain(words(scopes)).collect();
    let booking = Booking::start("promises-scopes", &options);
    let later = unix_nanos() / 1_000_000_000 + 3600;
    let token = |name: &str, scope: &str| {
        let claims =
            json!({"iss": ISSUER, "sub": name, "aud": "lighthaul", "exp": later, "scope": scope});
        signed_claims(&key, claims)
    };
    booking
        .run(&token("eve", "openid"), &["reservations"])
        .assert_failed(13, "the token lacks the scope book");
    for scope in ["run", "rule"] {
        let booked = ask(
            &booking,
            &token("ada", "openid book"),
            "book paris milan --size 1TB",
        );
        let id = booked["id"].to_string();
        let cancel = |token: &str| booking.run(token, &["cancel", &id]);
        assert_ne!(cancel(&token("ben", "book")).code, Some(0), "{scope}");
        cancel(&token("olga", scope)).assert_succeeded();
    }
}

#[test]
fn probe_time_sets_the_duration() {
    let far = Far::start("promises-seconds", &[]);
    let host = format!("lh://127.0.0.1:{}/", far.port);
    let bytes = |time: &str| {
        let mut probe = far
            .near
            .lighthaul(&["probe", &host, "--json", "--what", "network"]);
        probe
            .args(["--rate", "100Mb/s", "--time", time, "--pin", &far.pin])
            .arg("--key")
            .arg(far.near.key());
        let measured = one(&far.near.run(probe).assert_succeeded());
        measured["bytes"].as_u64().unwrap()
    };
    // a rate of 12.5 MB/s and a first train of 1 MB allow no more however busy the machine is
    let most = 4_000_000;
    let short = bytes("200ms");
    assert!((1..most).contains(&short), "{short} bytes in 0.2 s");
    let long = bytes("2s");
    assert!(long > most, "{long} bytes in 2 s");
}

#[test]
fn lab_verbose_prints_link_counters() {
    let name = "lab_verbose_prints_link_counters";
    if lacks(name, available()) {
        return;
    }
    let _turn = Turn::beside_others();
    let near = Near::new("promises-lab", None);
    let lab = |options: &str| {
        let line = format!("lab run --rate 10Mb/s {options} -- true");
        near.run(near.lighthaul(&words(line.trim())))
            .assert_succeeded()
    };
    assert!(!lab("--delay 1ms").said("the links took"));
    let told = lab("--delay 1ms --verbose");
    assert!(
        told.said("the links took") && told.said("a -> b"),
        "{told:?}"
    );
}

/// Writes `der` to a file as PEM.
fn write_pem(path: &Path, label: &str, der: &[u8]) {
    let text = BASE64.encode(der);
    let pem = format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n");
    fs::write(path, pem).unwrap();
}

/// A new authority, whose certificate is written to a file.
fn authority(path: &Path) -> Issuer<'static, KeyPair> {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "an authority");
    let certificate = params.self_signed(&key).unwrap();
    write_pem(path, "CERTIFICATE", certificate.der());
    Issuer::new(params, key)
}

/// A topology of one link, in a file, and its path.
fn one_link(near: &Near, more: &str) -> PathBuf {
    let path = near.at("network.toml");
    let link = "[[link]]\nfrom = \"paris\"\nto = \"milan\"\ncapacity = \"1Gb/s\"\n";
    fs::write(&path, format!("{link}{more}\n")).unwrap();
    path
}

#[test]
fn trusted_certificate_identifies_the_scheduler() {
    let near = Near::new("promises-certificate", None);
    let [trusted, other] = ["trusted.pem", "other.pem"].map(|name| near.at(name));
    let issuer = authority(&trusted);
    authority(&other);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    let here = IpAddr::from([127, 0, 0, 1]);
    params.subject_alt_names.push(SanType::IpAddress(here));
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let (chain, secret) = (near.at("chain.pem"), near.at("secret.pem"));
    write_pem(&chain, "CERTIFICATE", certificate.der());
    write_pem(&secret, "PRIVATE KEY", &key.serialize_der());
    let topology = one_link(&near, "");
    let shown = ["--certificate", chain.to_str().unwrap()];
    let key = ["--certificate-key", secret.to_str().unwrap()];
    let booking = Booking::over(near, &topology, &[shown, key].concat());
    let ada = booking.token("ada", "user");
    let near = &booking.near;
    let list = |url: &str, authorities: &Path| {
        let mut list = near.lighthaul(&["reservations", "--scheduler", url]);
        list.env("LIGHTHAUL_SCHEDULER_TOKEN", &ada)
            .env("SSL_CERT_FILE", authorities)
            .env_remove("SSL_CERT_DIR");
        near.run(list)
    };
    list(&booking.url, &trusted).assert_succeeded();
    list(&booking.url, &other).assert_failed(13, "which is not known here");
    // the certificate is for the address, not for the name
    let named = booking.url.replace("127.0.0.1", "localhost");
    list(&named, &trusted).assert_failed(13, "which is not known here");
    // a key without its certificate, and the other way round
    for half in [shown, key] {
        let serve = ["scheduler", "--topology", "x"];
        let serve = near.lighthaul(&[&serve[..], &half].concat());
        near.run(serve).assert_failed_to_parse();
    }
}

#[test]
fn reservations_and_bytes_of_one_owner_are_bounded() {
    let options = ["--no-tls", "--reservations-max", "2", "--bytes-max", "10MB"];
    let booking = Booking::start("promises-quota", &options);
    let [ada, bob] = ["ada", "bob"].map(|name| booking.token(name, "user"));
    // all on one day, whenever the test runs
    let sized = |size| format!("book paris milan --start 12:00 --size {size}");
    let refused = |token: &str, size, says| {
        let line = format!("{} --margin 0", sized(size));
        booking.run(token, &words(&line)).assert_failed(13, says);
    };
    refused(&ada, "11MB", "ada may book 10000000 bytes from ");
    let first = ask(&booking, &ada, &sized("7MB"))["id"].to_string();
    refused(&ada, "4MB", "of which 3000000 are left: ask for less");
    ask(&booking, &ada, &sized("3MB"));
    refused(&ada, "1kB", "ada has 2 reservations, the maximum");
    // each owner has its own
    ask(&booking, &bob, &sized("10MB"));
    let cancelled = booking.run(&ada, &["cancel", &first]);
    cancelled.assert_succeeded();
    ask(&booking, &ada, &sized("7MB"));
}

#[test]
fn requests_per_second_of_one_identity_are_limited() {
    let options = ["--no-tls", "--questions-max", "1"];
    let booking = Booking::start("promises-questions", &options);
    let [ada, bob] = ["ada", "bob"].map(|name| booking.token(name, "user"));
    let mut at_once = Vec::new();
    for _ in 0..12 {
        at_once.push(Running::start(booking.command(&ada, &["reservations"])));
    }
    let ended = at_once.into_iter().map(Running::finish);
    let (taken, refused): (Vec<_>, Vec<_>) = ended.partition(|one| one.code == Some(0));
    assert!(!taken.is_empty() && !refused.is_empty(), "{taken:?}");
    for outcome in refused {
        outcome.assert_failed(10, "too many requests: try again in ");
    }
    let other = booking.run(&bob, &["reservations"]);
    other.assert_succeeded();
}

#[test]
fn reservations_beyond_the_horizon_are_refused() {
    let booking = Booking::start("promises-horizon", &["--no-tls", "--horizon", "1h"]);
    let ada = booking.token("ada", "user");
    let held = |time| {
        words("book paris milan --rate-max 1Mb/s --hold")
            .into_iter()
            .chain([time])
    };
    let held = |time| booking.run(&ada, &held(time).collect::<Vec<_>>());
    held("50m").assert_succeeded();
    held("70m").assert_failed(40, "the horizon of the calendar: ask for less");
}

#[test]
fn lowest_and_fixed_rates_change_the_grant() {
    let booking = Booking::start("promises-rates", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    let early = ask(
        &booking,
        &ada,
        "book paris milan --size 20GB --rate-max 750Mb/s",
    );
    let next = "book paris milan --size 20GB --rate-max 400Mb/s --fixed";
    let next = ask(&booking, &ada, next);
    assert_eq!([rates(&early), rates(&next)], [[750], [400]]);
    assert!(begins(&next) > begins(&early), "{next}");
    // 250 Mb/s are free during the first, 600 during the second, and all after them
    let quote = |more: &str| {
        let line = format!("quote paris milan --size 40GB{more}");
        rates(&ask(&booking, &ada, &line))
    };
    assert_eq!(quote(""), [250, 600, 1000]);
    assert_eq!(quote(" --rate-min 251Mb/s"), [600, 1000]);
    assert_eq!(quote(" --rate-min 601Mb/s"), [1000]);
    assert_eq!(quote(" --fixed"), [1000]);
    assert_eq!(quote(" --fixed --rate-max 600Mb/s"), [600]);
    assert_eq!(quote(" --rate-max 600Mb/s"), [250, 600]);
}

/// Returns the waiting reservation that is moved first when the one before is canceled: 0, or 1 for the later one,
/// which has this priority.
fn first_to_go(booking: &Booking, token: &str, priority: &str) -> usize {
    let before = ask(booking, token, "book paris milan --size 12GB");
    let earlier = ask(booking, token, "book paris milan --size 2GB");
    let later = format!("book paris milan --size 2GB --priority {priority}");
    let later = ask(booking, token, &later);
    let ids = [&earlier, &later].map(|booked| booked["id"].to_string());
    let was = [begins(&earlier), begins(&later)];
    assert!(was[0] < was[1], "{was:?}");
    let cancel = |ids: &[&str]| {
        let words = [&["cancel"][..], ids].concat();
        booking.run(token, &words).assert_succeeded();
    };
    cancel(&[&before["id"].to_string()]);
    let begin = |id: &String| begins(&one(&booking.run(token, &["reservations", "--json", id])));
    let mut is = was.clone();
    becomes_true("both begin earlier", || {
        is = [begin(&ids[0]), begin(&ids[1])];
        is.iter().zip(&was).all(|(is, was)| is < was)
    });
    cancel(&ids.each_ref().map(String::as_str));
    usize::from(is[1] < is[0])
}

#[test]
fn higher_priority_gets_freed_capacity_first() {
    let options = ["--no-tls", "--questions-max", "10000"];
    let booking = Booking::start("promises-priority", &options);
    let ada = booking.token("ada", "user");
    assert_eq!(first_to_go(&booking, &ada, "0"), 0);
    assert_eq!(first_to_go(&booking, &ada, "9"), 1);
}

#[test]
fn link_capacity_applies_to_links_without_capacity() {
    let near = Near::new("promises-capacity", None);
    let topology = near.at("zoo.graphml");
    let graph = r#"<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
        <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="speed"/>
        <graph edgedefault="undirected"><node id="paris"/><node id="milan"/><node id="rome"/>
        <edge source="paris" target="milan"/>
        <edge source="milan" target="rome"><data key="speed">700000000</data></edge>
        </graph></graphml>"#;
    fs::write(&topology, graph).unwrap();
    let mut serve = near.lighthaul(&["scheduler", "--no-tls", "--listen", "127.0.0.1:0"]);
    for (option, name) in [
        ("--topology", "zoo.graphml"),
        ("--store", "none"),
        ("--key", "none-key"),
    ] {
        serve.arg(option).arg(near.at(name));
    }
    near.run(serve)
        .assert_failed(1, "the edge from paris to milan has no LinkSpeedRaw");
    assert_has_capacities_of_300_and_700_mbps(near, &topology);

    let near = Near::new("promises-capacity-toml", None);
    let topology = near.at("network.toml");
    let link = |from, to| format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
    let links = link("paris", "milan") + &link("milan", "rome") + "capacity = \"700Mb/s\"\n";
    fs::write(&topology, links).unwrap();
    assert_has_capacities_of_300_and_700_mbps(near, &topology);
}

fn assert_has_capacities_of_300_and_700_mbps(near: Near, topology: &Path) {
    let options = ["--no-tls", "--link-capacity", "300Mb/s"];
    let booking = Booking::over(near, topology, &options);
    let ada = booking.token("ada", "user");
    let quote = |ends| rates(&ask(&booking, &ada, &format!("quote {ends} --size 1GB")));
    assert_eq!([quote("paris milan"), quote("milan rome")], [[300], [700]]);
}

#[test]
fn topology_and_policy_errors_name_line_and_column() {
    let near = Near::new("promises-toml", None);
    let (topology, policy) = (near.at("network.toml"), near.at("policy.toml"));
    let link = "[[link]]\nfrom = \"a\"\nto = \"b\"\n";
    let refused = |says: &str| {
        let mut serve = near.lighthaul(&["scheduler", "--no-tls", "--link-capacity", "1Gb/s"]);
        for (option, name) in [
            ("--topology", "network.toml"),
            ("--policy", "policy.toml"),
            ("--store", "none"),
            ("--key", "none-key"),
        ] {
            serve.arg(option).arg(near.at(name));
        }
        near.run(serve).assert_failed(1, says);
    };
    fs::write(&policy, "").unwrap();
    fs::write(&topology, format!("{link}colour = \"red\"\n")).unwrap();
    let place = topology.display();
    refused(&format!(
        "{place}: line 4, column 1: unknown field `colour`, expected"
    ));
    fs::write(&topology, link).unwrap();
    fs::write(&policy, "[default]\nahead = \"7d\nlinks = []\n").unwrap();
    let place = policy.display();
    refused(&format!(
        "cannot use the policy file {place}: line 2, column 12: invalid"
    ));
}

/// A driver program of a device: it records its requests in a file and confirms them.
pub(crate) fn device(near: &Near) -> (PathBuf, PathBuf) {
    let (program, heard) = (near.at("device"), near.at("heard"));
    let script = format!(
        r#"#!/bin/sh
while read -r request; do
    printf '%s\n' "$request" >> '{}'
    seq=${{request#*:}} seq=${{seq%%,*}}
    case "$request" in
    *'"verb":"hello"'*) content='"version":1,"capabilities":{{"rate_min_bps":1000000,"rate_max_bps":1000000000,"granularity_bps":1000000,"reconfiguration_ns":0,"settling_ns":0,"circuits_max":96,"counted":{{"layer":"ip","overhead_bytes":0}}}}';;
    *'"verb":"inspect"'*) content='"circuits":[]';;
    *) content=$(printf '%s' "$request" | grep -o '"id":' | sed 's/.*/null/' | paste -s -d, | sed 's/.*/"results":[&]/');;
    esac
    printf '{{"seq":%s,%s}}\n' "$seq" "$content"
done
"#,
        heard.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program, heard)
}

#[test]
fn device_gets_the_packets_of_the_circuit() {
    let near = Near::new("promises-packets", None);
    let topology = one_link(&near, "interfaces = [\"switch\"]");
    let (program, heard) = device(&near);
    let policy = near.at("policy.toml");
    fs::write(&policy, "[identity.ada]\nprefixes = [\"10.0.0.0/8\"]\n").unwrap();
    let switch = format!("switch={}", program.display());
    let options = ["--no-tls", "--device", &switch, "--policy"];
    let options = [&options[..], &[policy.to_str().unwrap()]].concat();
    let booking = Booking::over(near, &topology, &options);
    let (ada, olga) = (
        booking.token("ada", "user"),
        booking.token("olga", "operator"),
    );
    let book = |token: &str, more: &[&str]| {
        let line = "book paris milan --json --size 20GB --rate-max 100Mb/s";
        booking.run(token, &[&words(line)[..], more].concat())
    };
    let hears = |flow: &str, rate: u64| {
        let says = format!(r#""interface":"switch","flow":"{flow}","rate_bps":{rate}}}"#);
        becomes_true(&says, || {
            fs::read_to_string(&heard).unwrap().contains(&says)
        });
    };
    let packets = ["--interface", "switch", "--packets", "udp 10.0.0.2 5000"];
    let booked = one(&book(&ada, &packets).assert_succeeded());
    hears("udp 10.0.0.2/32 5000-5000", 100_000_000);
    let cancelled = booking.run(&ada, &["cancel", &booked["id"].to_string()]);
    cancelled.assert_succeeded();
    // without the option, the reservations of all owners are listed, which needs an operator
    book(&ada, &packets[..2])
        .assert_failed(13, "does not permit packets \"all\", only to: 10.0.0.0/8");
    book(&olga, &packets[..2]).assert_succeeded();
    hears("all", 100_000_000);
    book(&ada, &packets[2..]).assert_failed_to_parse();
    let bad = ["--interface", "switch", "--packets", "udp somewhere"];
    book(&ada, &bad).assert_failed_to_parse();
}

/// Sends 2000 messages at a rate at which most become older than 200 ms, until the report `is_sound`: a busy host may
/// drop some, or write them late. Returns the last report and the file of those that arrived.
fn carried_late(
    far: &Far,
    late: &[&str],
    is_sound: impl Fn(&Value) -> bool,
) -> (Value, Vec<String>) {
    let mut carried = carried_once(far, late, 0);
    for nth in 1..4 {
        if is_sound(&carried.0) {
            break;
        }
        carried = carried_once(far, late, nth);
    }
    carried
}

fn carried_once(far: &Far, late: &[&str], nth: u8) -> (Value, Vec<String>) {
    let source = far.near.at("lines");
    let lines = (0..2000).map(|nth| format!("message {nth}\n"));
    fs::write(&source, lines.collect::<String>()).unwrap();
    let mut stream = far.near.lighthaul(&["stream", "--json", "--pin", &far.pin]);
    stream.arg("--key").arg(far.near.key());
    let name = format!("arrived{nth}{}", late.concat());
    let slow = ["--rate", "1Mb/s", "--deadline", "200ms"];
    stream
        .args(slow)
        .args(late)
        .arg(&source)
        .arg(far.place(&name));
    let report = one(&far.near.run(stream).assert_succeeded());
    let arrived = fs::read_to_string(far.target.join(name)).unwrap();
    (report, arrived.lines().map(str::to_owned).collect())
}

#[test]
fn late_messages_are_delivered_or_dropped_as_asked() {
    let far = Far::start("promises-late", &[]);
    let count = |report: &Value, name: &str| report[name].as_u64().unwrap();
    for late in [&[][..], &["--late", "deliver"]] {
        let is_whole = |report: &Value| count(report, "delivered") == 2000;
        let (report, arrived) = carried_late(&far, late, is_whole);
        assert_eq!(count(&report, "messages"), 2000, "{report}");
        assert_eq!(count(&report, "delivered"), 2000, "{report}");
        assert!(count(&report, "late") > 0, "{report}");
        assert!(count(&report, "latency_max_us") > 200_000, "{report}");
        assert_eq!(arrived.len(), 2000);
    }
    // delivered messages meet the deadline, plus the time until they are written
    let in_time = |report: &Value| count(report, "latency_max_us") <= 250_000;
    let (report, arrived) = carried_late(&far, &["--late", "drop"], in_time);
    let [delivered, late, lost] = ["delivered", "late", "lost"].map(|name| count(&report, name));
    let unread = count(&report, "unread");
    assert_eq!(delivered + late + lost + unread, 2000, "{report}");
    assert!(delivered > 0 && late > 0, "{report}");
    assert!(in_time(&report), "{report}");
    let distinct: BTreeSet<_> = arrived.iter().collect();
    assert_eq!(
        [arrived.len() as u64, distinct.len() as u64],
        [delivered; 2]
    );
}
