//! A switch that speaks TL1, set by the scheduler.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::booking::{Booking, one};
use crate::far::Near;
use crate::running::becomes_true;

/// Cross-connects of a switch, as in `A,B`.
type CrossConnects = Arc<Mutex<BTreeSet<String>>>;

/// Starts a switch with the commands of the Cisco 15454. Its own tests are those of the driver.
fn switch() -> (SocketAddr, CrossConnects) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let made = CrossConnects::default();
    let shared = Arc::clone(&made);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let made = Arc::clone(&shared);
            thread::spawn(move || answer_all(stream.unwrap(), &made));
        }
    });
    (address, made)
}

/// Answers each command of a client until it leaves.
fn answer_all(mut stream: TcpStream, made: &CrossConnects) {
    let mut command = Vec::new();
    let mut octet = [0];
    while stream.read_exact(&mut octet).is_ok() {
        command.push(octet[0]);
        if octet == *b";" {
            let text = String::from_utf8(std::mem::take(&mut command)).unwrap();
            if stream.write_all(answer(&text, made).as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn answer(command: &str, made: &CrossConnects) -> String {
    let fields: Vec<&str> = command.trim().split([':', ';']).collect();
    let (verb, place, tag) = (fields[0], fields[2].to_owned(), fields[3]);
    let mut made = made.lock().unwrap();
    match verb.split("-STS").next().unwrap() {
        "ENT-CRS" => drop(made.insert(place)),
        "DLT-CRS" => drop(made.remove(&place)),
        _ => {}
    }
    let listed = |pair: &String| format!("   \"{pair}:1WAY,STS3C\"\r\n");
    let lines: String = if verb.starts_with("RTRV-CRS") {
        made.iter().map(listed).collect()
    } else {
        String::new()
    };
    format!("\r\n\n   SWITCH 26-01-01 00:00:00\r\nM  {tag} COMPLD\r\n{lines};")
}

#[test]
fn reservation_becomes_cross_connects_of_a_switch() {
    let near = Near::new("switches", None);
    let (address, made) = switch();
    let [topology, login, settings] = ["network.toml", "login", "switch.toml"].map(|f| near.at(f));
    let link = "from = \"paris\"\nto = \"milan\"\ncapacity = \"1Gb/s\"\ninterfaces = [\"wan\"]";
    fs::write(&topology, format!("[[link]]\n{link}\n")).unwrap();
    fs::write(&login, "ada\nsecret\n").unwrap();
    let lines = [
        format!("address = \"{address}\"\ndialect = \"cisco\"\nsignal = \"STS3C\""),
        format!("login = {login:?}\nrecords = {:?}", near.folder("records")),
        "channel_rate = \"100Mb/s\"\nreconfiguration = \"1ms\"\n[interfaces]".to_owned(),
        "wan = [[\"STS-1\", \"STS-5\"], [\"STS-2\", \"STS-6\"], [\"STS-3\", \"STS-7\"]]".to_owned(),
    ];
    fs::write(&settings, lines.join("\n")).unwrap();
    let booking = Booking::over(
        near,
        &topology,
        &["--no-tls", "--switch", settings.to_str().unwrap()],
    );
    let olga = booking.token("olga", "operator");
    let words = "book paris milan --json --size 20GB --rate-max 200Mb/s --interface wan";
    let words: Vec<_> = words.split(' ').collect();
    let booked = one(&booking.run(&olga, &words).assert_succeeded());
    let has = |expected: &[&str]| {
        let expected: BTreeSet<_> = expected.iter().map(|&pair| pair.to_owned()).collect();
        let what = format!("the switch has {expected:?}");
        becomes_true(&what, || *made.lock().unwrap() == expected);
    };
    has(&["STS-1,STS-5", "STS-2,STS-6"]);
    let id = booked["id"].to_string();
    booking.run(&olga, &["cancel", &id]).assert_succeeded();
    has(&[]);
}

#[test]
fn missing_settings_of_a_switch_are_named() {
    let near = Near::new("switches-missing", None);
    let topology = near.at("network.toml");
    let link = "from = \"paris\"\nto = \"milan\"\ncapacity = \"1Gb/s\"";
    fs::write(&topology, format!("[[link]]\n{link}\n")).unwrap();
    let mut serve = near.lighthaul(&["scheduler", "--no-tls", "--listen", "127.0.0.1:0"]);
    serve.arg("--topology").arg(&topology);
    serve.arg("--store").arg(near.at("books"));
    serve.args(["--switch", "/nowhere/switch.toml"]);
    let outcome = near.run(serve);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.said("/nowhere/switch.toml"), "{outcome:?}");
}

#[test]
fn device_with_several_drivers_is_refused() {
    let near = Near::new("switches-twice", None);
    let topology = near.at("network.toml");
    let link = "from = \"paris\"\nto = \"milan\"\ncapacity = \"1Gb/s\"\ninterfaces = [\"sw1\"]";
    fs::write(&topology, format!("[[link]]\n{link}\n")).unwrap();
    let serve = |options: &[&str]| {
        let mut serve = near.lighthaul(&["scheduler", "--no-tls", "--listen", "127.0.0.1:0"]);
        serve.arg("--topology").arg(&topology);
        serve.arg("--store").arg(near.at("books")).args(options);
        near.run(serve)
    };
    for options in [
        &["--shape", "sw1=1Gb/s", "--device", "sw1=/bin/true"][..],
        &["--shape", "sw1=1Gb/s,sw1=2Gb/s"],
        &["--device", "sw1=/bin/true", "--device", "sw1=/bin/false"],
    ] {
        serve(options).assert_failed(1, "device sw1 has several drivers: name it in only one");
    }
}

#[test]
fn driver_program_gets_its_arguments() {
    let near = Near::new("switches-arguments", None);
    let topology = near.at("network.toml");
    let link = "from = \"paris\"\nto = \"milan\"\ncapacity = \"1Gb/s\"\ninterfaces = [\"sw1\"]";
    fs::write(&topology, format!("[[link]]\n{link}\n")).unwrap();
    let (program, heard) = (near.at("a driver"), near.at("heard"));
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >{}\n", heard.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut serve = near.lighthaul(&["scheduler", "--no-tls", "--listen", "127.0.0.1:0"]);
    serve.arg("--topology").arg(&topology);
    serve.arg("--store").arg(near.at("books"));
    let device = format!("sw1='{}' --port=2 \"two words\"", program.display());
    serve.args(["--device", &device]);
    // it ends without an answer
    assert_ne!(near.run(serve).code, Some(0));
    let arguments = fs::read_to_string(heard).unwrap();
    assert_eq!(arguments, "--port=2\ntwo words\n");
}
