//! Devices that do not answer while the process has to stop. It is the only test of its process, since a stop cannot
//! be taken back.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::exec::Exec;
use lighthaul_circuit::exec::config::Config;
use lighthaul_circuit::tl1::{SwitchConfig, Tl1};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;
use lighthaul_testkit::allowance;

#[test]
fn stop_ends_all_waits_for_devices_and_is_reported() {
    let program = r#"read -r hello
        echo '{"seq":1,"version":1,"capabilities":{"rate_min_bps":1000000,"rate_max_bps":10000000,"granularity_bps":1000000,"reconfiguration_ns":0,"settling_ns":0,"circuits_max":9,"counted":{"layer":"ip","overhead_bytes":0}}}'
        exec sleep 600"#;
    let config = Config {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), program.to_owned()],
        limit: Duration::from_mins(9),
    };
    let mut hung = Exec::open(Clock::start(), config).unwrap();
    // once its queue is full, the kernel answers no further connection
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let fill = std::net::TcpStream::connect(address).unwrap();
    let mut silent = switch(&address.to_string(), "9m");
    let mut late = switch(&address.to_string(), "1s");
    let why = late.inspect().unwrap_err().to_string();
    let expected = format!("switch {address}: cannot connect: no answer within 1 s");
    assert_eq!(why, expected, "before the stop");

    let mut slow = slow_switch();
    let mut lively = switch_with(Duration::ZERO, complete);
    let mut busy = switch_with(Duration::ZERO, |tag| format!("RL {tag}\r\n<"));

    interrupt::request();
    let clock = Clock::start();
    let since = |begin: Instant| clock.now().since(begin);
    // each driver has a limit of its own
    let till = clock.now() + Duration::from_secs(30);
    let answering = thread::spawn(move || {
        while clock.now() < till {
            assert!(lively.inspect().is_ok());
            pause(Duration::from_secs(1));
        }
    });
    // a switch that stays busy makes no progress
    let why = busy.inspect().unwrap_err().to_string();
    assert!(why.contains("before Lighthaul had to stop"), "{why}");
    let took = since(Instant::ZERO);
    assert!(took < allowance(20), "{took:?}");
    // three answers, each within the time for one
    assert!(slow.inspect().is_ok());
    let why = hung.inspect().unwrap_err().to_string();
    assert!(
        why.ends_with("it did not answer before Lighthaul had to stop, and was killed"),
        "{why}"
    );
    let why = silent.inspect().unwrap_err().to_string();
    let expected = "it did not answer before Lighthaul had to stop (connection)";
    assert_eq!(why, format!("switch {address}: {expected}"));
    let took = since(Instant::ZERO);
    assert!(took < allowance(25), "{took:?}");
    answering.join().unwrap();
    drop((fill, listener));
}

/// Returns the driver of a switch that completes each command after two seconds.
fn slow_switch() -> Tl1 {
    switch_with(Duration::from_secs(2), complete)
}

fn complete(tag: &str) -> String {
    format!("\r\n\n   SIM 26-11-26 22:52:20\r\nM  {tag} COMPLD\r\n;")
}

/// Returns the driver of a switch that answers each tag after this time.
fn switch_with(latency: Duration, answer: fn(&str) -> String) -> Tl1 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let driver = switch(&listener.local_addr().unwrap().to_string(), "9m");
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut stream, mut command) = (stream, Vec::new());
        while reader
            .read_until(b';', &mut command)
            .is_ok_and(|count| count > 0)
        {
            pause(latency);
            let text = String::from_utf8(std::mem::take(&mut command)).unwrap();
            let tag = text.trim_end_matches(';').split(':').nth(3).unwrap();
            if stream.write_all(answer(tag).as_bytes()).is_err() {
                return;
            }
        }
    });
    driver
}

/// Returns the driver of a switch with this time limit.
fn switch(address: &str, limit: &str) -> Tl1 {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stopping-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let login = folder.join("login");
    fs::write(&login, "ada\nsecret\n").unwrap();
    let settings = folder.join("switch.toml");
    let text = format!(
        "address = \"{address}\"\ndialect = \"glimmerglass\"\nlogin = \"{}\"\nrecords = \"{}\"\n\
         channel_rate = \"10Gb/s\"\nreconfiguration = \"10ms\"\ntimeout = \"{limit}\"\nlist_timeout = \"{limit}\"\n\
         [interfaces]\nwan = [[\"10001\", \"20001\"]]\n",
        login.display(),
        folder.display(),
    );
    fs::write(&settings, text).unwrap();
    let config = SwitchConfig::read(&settings).unwrap();
    fs::remove_file(&login).unwrap();
    Tl1::open(Clock::start(), &config, "wan").unwrap()
}
