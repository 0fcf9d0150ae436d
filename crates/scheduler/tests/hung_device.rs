//! Scheduler that is stopped while its device does not answer.
#![expect(clippy::unwrap_used, reason = "a test")]

#[expect(dead_code, reason = "used by other tests")]
#[path = "../../booking/tests/books/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_booking::books::{Books, Config};
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::exec::{Exec, config};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_scheduler::certificate::ServerCertificate;
use lighthaul_scheduler::circuits::Circuits;
use lighthaul_scheduler::connections::Limits;
use lighthaul_scheduler::device_record::DeviceRecord;
use lighthaul_scheduler::identity::Authenticator;
use lighthaul_scheduler::serve::{Server, Settings};
use lighthaul_testkit::allowance;
use world::link;

#[test]
fn stopped_scheduler_does_not_wait_for_a_device_that_hangs() {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["serves", "--exact", "--ignored", "--nocapture"]);
    command.env(IS_CHILD, "yes").stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = said.map_while(Result::ok);
    assert!(said.any(|line| line.contains(HANGS)), "the device is asked");
    let mut listening = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    while !listening.contains(READY) {
        assert!(output.read_line(&mut listening).unwrap() > 0, "{listening}");
    }
    let clock = Clock::start();
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(sent.success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    let took = clock.now().since(Instant::ZERO);
    println!("stopped within {took:?}");
    assert!(took < allowance(60), "{took:?}");
}

/// Process of the test above.
#[test]
#[ignore = "it is started by another test"]
fn serves() {
    if env::var_os(IS_CHILD).is_none() {
        return;
    }
    let program = format!(
        r#"read -r hello
        echo '{{"seq":1,"version":1,"capabilities":{{"rate_min_bps":1000000,"rate_max_bps":10000000,"granularity_bps":1000000,"reconfiguration_ns":0,"settling_ns":0,"circuits_max":9,"counted":{{"layer":"ip","overhead_bytes":0}}}}}}'
        read -r next
        echo {HANGS} > /proc/$PPID/fd/2
        exec sleep 600"#
    );
    let config = config::Config {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), program],
        limit: Duration::from_mins(9),
    };
    let driver: Box<dyn Driver> = Box::new(Exec::open(Clock::start(), config).unwrap());
    let drivers = BTreeMap::from([("eth1".to_owned(), driver)]);
    let now = || Timestamp(unix_nanos());
    let store = Box::new(Sqlite::in_memory().unwrap());
    let books = Books::open(store, link(1000), Config::default(), now);
    let books = Arc::new(books.unwrap());
    let circuits = Circuits::start(
        Arc::clone(&books),
        drivers,
        Clock::start(),
        now(),
        DeviceRecord::default(),
    );
    let server = Server::listen(Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        certificate: ServerCertificate::Plain,
        insecure: false,
        authenticator: Authenticator {
            tokens: None,
            issuer: None,
        },
        books,
        requests_per_second: 100,
        limits: Limits::default(),
        peers: ServerTrust::certificate(),
        circuits: Some(circuits.unwrap()),
        jobs: None,
        nsi: None,
    });
    let server = server.unwrap();
    println!("{READY}");
    server.run().unwrap();
}

const IS_CHILD: &str = "LIGHTHAUL_HUNG_DEVICE";
const HANGS: &str = "the device hangs";
const READY: &str = "the scheduler listens";
