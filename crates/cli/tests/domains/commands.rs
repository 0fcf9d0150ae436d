//! Commands for two domains on this host, and what they refuse.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_testkit::{Turn, libfaketime};

use crate::running::{Outcome, Running, becomes_true, event};
use crate::schema::assert_valid;
use crate::scratch::Scratch;

pub(crate) const LIGHTHAUL: &str = env!("CARGO_BIN_EXE_lighthaul");

/// Two domains with a link, of which the second one may run with another clock.
pub(crate) struct Pair {
    pub(crate) scratch: Scratch,
    services: Vec<Running>,
    _turn: Turn,
}

impl Pair {
    pub(crate) fn start(name: &str, second: impl Fn() -> Command) -> Self {
        let mut pair = Self {
            scratch: Scratch::new(name),
            services: Vec::new(),
            _turn: Turn::beside_others(),
        };
        let keys = [1, 2].map(|me| {
            fs::write(pair.scratch.at("key.toml"), format!("key = \"{me}.key\"\n")).unwrap();
            let mut key = Command::new(LIGHTHAUL);
            key.args(["domains", "serve", "--show-key", "--config"]);
            key.arg(pair.scratch.at("key.toml"));
            run(key).assert_succeeded().out.concat()
        });
        let mut address = String::new();
        for me in [1, 2] {
            let other = 3 - me;
            let key = &keys[other - 1];
            let text = format!(
                "domain = {me}\nname = \"d{me}\"\nlisten = \"127.0.0.1:0\"\nkey = \"{me}.key\"\nstore = \"{me}.db\"\n\
                 [timing]\nquery = \"1s\"\nhold = \"2s\"\ndecide = \"1s\"\nretry = \"100ms\"\n\
                 [[port]]\nnumber = 12\nnode = \"core\"\ncapacity = \"1Gb/s\"\n\
                 [[port]]\nnumber = 10{me}\nnode = \"core\"\ncapacity = \"1Gb/s\"\n\
                 [[neighbor]]\ndomain = {other}\nname = \"d{other}\"\nkey = \"{key}\"\n{address}\
                 [[domain_link]]\nport = 12\nfrom = 1\nto = 2\nboth = true\n"
            );
            let config = pair.scratch.at(&format!("{me}.toml"));
            fs::write(&config, text).unwrap();
            let mut serve = if me == 1 {
                Command::new(LIGHTHAUL)
            } else {
                second()
            };
            serve.args(["domains", "serve", "--config"]).arg(&config);
            serve
                .arg("--socket")
                .arg(pair.scratch.at(&format!("{me}.sock")));
            let mut service = Running::start(serve);
            let line = service.says("for neighbors");
            let listens = line.split("listening on ").nth(1).unwrap();
            let listens = listens.split_whitespace().next().unwrap();
            address = format!("address = \"{listens}\"\n");
            service.says("answering");
            pair.services.push(service);
        }
        becomes_true("the neighbor is connected", || {
            let status = pair.ask(1, &["domains", "--json"]).assert_succeeded();
            event(&status.out[0])["neighbors"][0]["connected"] == true
        });
        pair
    }

    /// Runs `lighthaul` with these words for the service of a domain.
    pub(crate) fn ask(&self, me: u32, words: &[&str]) -> Outcome {
        let mut command = Command::new(LIGHTHAUL);
        command.args(words).arg("--socket");
        command.arg(self.scratch.at(&format!("{me}.sock")));
        run(command)
    }
}

/// Returns a time as the command line takes it. The domains of a pair have no devices, so a path must not begin.
pub(crate) fn in_an_hour() -> String {
    Timestamp(unix_nanos() + 3_600_000_000_000).to_string()
}

pub(crate) fn run(command: Command) -> Outcome {
    Running::start(command).finish()
}

#[test]
fn paths_are_listed_shown_and_canceled_by_the_first_digits_of_their_ids() {
    let pair = Pair::start("domain-commands", || Command::new(LIGHTHAUL));
    let start = in_an_hour();
    let wanted = [
        "path",
        "1:101",
        "2:102",
        "--size",
        "10MB",
        "--start",
        &start,
        "--rate-max",
        "20Mb/s",
        "--json",
    ];
    let made = assert_valid(&pair.ask(1, &wanted).assert_succeeded()).remove(0);
    assert_eq!(
        (made["type"].as_str(), made["stage"].as_str()),
        (Some("path"), Some("committed"))
    );
    assert_eq!(made["steps"][0]["rate_bps"], 20_000_000);
    assert_valid(&pair.ask(2, &["domains", "--json"]).assert_succeeded());
    let id = made["id"].as_str().unwrap();
    let list = pair.ask(2, &["path", "list"]).assert_succeeded().out;
    assert!(
        list[1].starts_with(&id[..8]) && list[1].ends_with("1 > 2"),
        "{list:?}"
    );
    let shown = pair
        .ask(2, &["path", "show", &id[..6], "--json"])
        .assert_succeeded();
    assert_eq!(event(&shown.out[0])["id"], made["id"]);
    pair.ask(1, &["path", "show", "zz"])
        .assert_failed(1, "no path begins with zz");
    pair.ask(1, &["path", "show", ""])
        .assert_failed(1, "give more digits");
    pair.ask(2, &["path", "cancel", id])
        .assert_failed(13, "belongs to domain 1; cancel it there");
    let canceled = pair
        .ask(1, &["path", "cancel", &id[..8]])
        .assert_succeeded();
    assert!(canceled.out[0].ends_with("is released"), "{canceled:?}");
    pair.ask(1, &["path", "cancel", id])
        .assert_failed(1, "path");
    for service in pair.services {
        service.signal("TERM");
        service.finish().assert_succeeded();
    }
}

#[test]
fn service_notifies_readiness_when_requests_are_answered_and_stops_in_order() {
    let scratch = Scratch::new("domain-ready");
    let config = scratch.at("1.toml");
    let text = "domain = 1\nname = \"d1\"\nlisten = \"127.0.0.1:0\"\nkey = \"1.key\"\nstore = \"1.db\"\n\
                [[port]]\nnumber = 101\nnode = \"core\"\ncapacity = \"1Gb/s\"\n";
    fs::write(&config, text).unwrap();
    let path = scratch.at("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let mut serve = Command::new(LIGHTHAUL);
    serve.args(["domains", "serve", "--config"]).arg(&config);
    serve.arg("--socket").arg(scratch.at("1.sock"));
    serve.env("NOTIFY_SOCKET", &path);
    let service = Running::start(serve);
    let mut state = [0; 100];
    let next = |state: &mut [u8]| socket.recv(state).unwrap();
    let len = next(&mut state);
    assert!(state[..len].starts_with(b"READY=1"));
    let mut ask = Command::new(LIGHTHAUL);
    ask.args(["domains", "--socket"]).arg(scratch.at("1.sock"));
    let drawn = run(ask).assert_succeeded().out;
    assert!(drawn[0].starts_with("1 d1  key sha256:"), "{drawn:?}");
    service.signal("INT");
    let len = next(&mut state);
    assert!(state[..len].starts_with(b"STOPPING=1"));
    service.finish().assert_succeeded();
    assert!(!scratch.at("1.sock").exists());
}

/// Returns the configuration of a domain with one device, which has this driver.
fn one_domain(program: &Path) -> String {
    format!(
        "domain = 1\nname = \"d1\"\nlisten = \"127.0.0.1:0\"\nkey = \"1.key\"\nstore = \"1.db\"\n\
         [timing]\nquery = \"100ms\"\nhold = \"100ms\"\ndecide = \"100ms\"\nretry = \"100ms\"\n\
         [[port]]\nnumber = 101\nnode = \"core\"\ncapacity = \"1Gb/s\"\n\
         [[port]]\nnumber = 102\nnode = \"core\"\ncapacity = \"1Gb/s\"\n\
         [[device]]\ninterface = \"sw1\"\nprogram = \"{}\"\nlimit = \"10m\"\n\
         [[circuit]]\ningress = 101\negress = 102\ninterface = \"sw1\"\nflow = \"all\"\n",
        program.display()
    )
}

#[test]
fn service_ends_although_a_driver_never_answers() {
    let scratch = Scratch::new("domain-hung");
    let program = scratch.at("driver");
    let hung = scratch.at("hung");
    let script = format!("#!/bin/sh\nhung={}\n{HUNG}", hung.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = scratch.at("1.toml");
    fs::write(&config, one_domain(&program)).unwrap();
    let mut serve = Command::new(LIGHTHAUL);
    serve.args(["domains", "serve", "--config"]).arg(&config);
    serve.arg("--socket").arg(scratch.at("1.sock"));
    let mut service = Running::start(serve);
    service.says("answering");
    let mut path = Command::new(LIGHTHAUL);
    path.args(["path", "1:101", "1:102", "--rate", "10Mb/s", "--hold", "1m"]);
    path.arg("--socket").arg(scratch.at("1.sock"));
    run(path).assert_succeeded();
    becomes_true("the driver hangs", || hung.exists());
    service.signal("TERM");
    service.finish().assert_succeeded();
    let driver = fs::read_to_string(&hung).unwrap();
    let process = format!("/proc/{}", driver.trim());
    becomes_true("the driver is killed", || !Path::new(&process).exists());
}

#[test]
fn service_whose_store_fails_completes_its_paths_before_it_ends() {
    let scratch = Scratch::new("domain-store");
    let (program, log) = (scratch.at("driver"), scratch.at("log"));
    let script = format!("#!/bin/sh\nlog={}\n{LOGGING}", log.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = scratch.at("1.toml");
    fs::write(&config, one_domain(&program)).unwrap();
    let mut serve = Command::new(LIGHTHAUL);
    serve.args(["domains", "serve", "--config"]).arg(&config);
    serve.arg("--socket").arg(scratch.at("1.sock"));
    let mut service = Running::start(serve);
    service.says("answering");
    let ask = |time: &str| {
        let mut path = Command::new(LIGHTHAUL);
        path.args(["path", "1:101", "1:102", "--rate", "10Mb/s", "--hold", time]);
        path.arg("--socket").arg(scratch.at("1.sock"));
        run(path)
    };
    ask("12s").assert_succeeded();
    let rates = || fs::read_to_string(&log).unwrap_or_default();
    becomes_true("the device has the rate", || rates() == "10000000\n");
    // neither this service nor the next one can write there
    let store = scratch.at("1.db");
    fs::remove_file(&store).unwrap();
    fs::create_dir(&store).unwrap();
    assert_ne!(ask("12s").code, Some(0));
    service.says("the devices complete the paths that they have");
    let ended = service.finish();
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_eq!(rates(), "10000000\n0\n");
}

/// Driver that writes each rate to the file `$log`.
const LOGGING: &str = r#"
while read -r line; do
    seq=${line#*\"seq\":}
    seq=${seq%%[,\}]*}
    case $line in
    *'"hello"'*)
        echo '{"seq":'"$seq"',"version":1,"capabilities":{"rate_min_bps":1000000,"rate_max_bps":1000000000,"granularity_bps":1000000,"reconfiguration_ns":1000,"settling_ns":0,"circuits_max":9,"counted":{"layer":"ip","overhead_bytes":0}}}' ;;
    *'"inspect"'*) echo '{"seq":'"$seq"',"circuits":[]}' ;;
    *'"remove"'*) echo 0 >>"$log" && echo '{"seq":'"$seq"',"results":[null]}' ;;
    *)
        rate=${line#*\"rate_bps\":}
        echo "${rate%%[,\}]*}" >>"$log" && echo '{"seq":'"$seq"',"results":[null]}' ;;
    esac
done
"#;

/// Driver that answers until it has to change a rate. Then it writes its number to the file `$hung`.
const HUNG: &str = r#"
while read -r line; do
    seq=${line#*\"seq\":}
    seq=${seq%%[,\}]*}
    case $line in
    *'"hello"'*)
        echo '{"seq":'"$seq"',"version":1,"capabilities":{"rate_min_bps":1000000,"rate_max_bps":1000000000,"granularity_bps":1000000,"reconfiguration_ns":1000,"settling_ns":0,"circuits_max":9,"counted":{"layer":"ip","overhead_bytes":0}}}' ;;
    *'"inspect"'*) echo '{"seq":'"$seq"',"circuits":[]}' ;;
    *) echo $$ >"$hung.new" && mv "$hung.new" "$hung" && exec sleep 1000 ;;
    esac
done
"#;

#[test]
fn refused_paths_and_missing_services_have_their_exit_statuses() {
    let pair = Pair::start("domain-refusals", || Command::new(LIGHTHAUL));
    let ask = |words: &[&str]| pair.ask(1, &[&["path"], words].concat());
    let fast = ["1:101", "2:102", "--size", "1MB", "--rate-min", "2Gb/s"];
    ask(&fast).assert_failed(
        40,
        "the path is refused: the capacity is not free: request a lower rate",
    );
    let around = ["1:101", "2:102", "--size", "1MB", "--exclude-link", "12"];
    ask(&around).assert_failed(40, "no path exists");
    ask(&["1:101", "berlin", "--size", "1MB"]).assert_failed(1, "end point \"berlin\" is unknown");
    ask(&["2:102", "1:101", "--size", "1MB"]).assert_failed(1, "is in domain 2");
    ask(&["1:101", "2:102"]).assert_failed_to_parse();
    ask(&["1:101", "2:102", "--hold", "2s"]).assert_failed_to_parse();
    let json = ask(&["1:101", "berlin", "--size", "1MB", "--json"]);
    assert_eq!(event(&json.out[0])["code"], 1);
    pair.ask(7, &["path", "list"])
        .assert_failed(3, "cannot reach the service of a domain");
    let mut other = Command::new(LIGHTHAUL);
    other.args(["domains", "serve", "--config"]);
    other.arg(pair.scratch.at("1.toml"));
    other.arg("--socket").arg(pair.scratch.at("7.sock"));
    run(other).assert_failed(11, "another process has locked it");
    let mut missing = Command::new(LIGHTHAUL);
    missing.args(["domains", "serve", "--config", "/nowhere.toml"]);
    run(missing).assert_failed(3, "cannot read the configuration /nowhere.toml");
}

#[test]
fn path_to_a_domain_whose_clock_is_wrong_is_refused_with_the_offset() {
    let name = "path_to_a_domain_whose_clock_is_wrong_is_refused_with_the_offset";
    let Some(library) = libfaketime(name) else {
        return;
    };
    let pair = Pair::start("domain-clock", || {
        let mut command = Command::new(LIGHTHAUL);
        command.env("LD_PRELOAD", &library).env("FAKETIME", "+1h");
        // waits of the kernel use the monotonic clock
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command
    });
    // each side refuses what the other one asks for
    let sides = [
        (1, "1:101", "2:102", "behind"),
        (2, "2:102", "1:101", "ahead"),
    ];
    for (me, from, to, side) in sides {
        let words = ["path", from, to, "--size", "1MB"];
        let refused = pair.ask(me, &words);
        let text = refused
            .assert_failed(40, "the clock of the neighbor is")
            .err
            .concat();
        let offset = text.split("neighbor is ").nth(1).unwrap();
        let seconds: f64 = offset.split(' ').next().unwrap().parse().unwrap();
        assert!((3590.0..3610.0).contains(&seconds), "{text}");
        assert!(
            text.contains(&format!("s {side}: synchronize both clocks")),
            "{text}"
        );
    }
    for me in [1, 2] {
        assert_eq!(
            pair.ask(me, &["path", "list"]).assert_succeeded().out,
            ["no paths"]
        );
    }
}
