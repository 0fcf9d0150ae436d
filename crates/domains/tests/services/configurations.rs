//! Configuration files: the documented form, and faults with their remedies.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_domains::config::{DriverConfig, KnownDevices};
use lighthaul_domains::{Devices, DomainConfig};
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{DomainId, PortId, Segment, Timing};

use super::site::PATIENCE;

fn key(octet: u8) -> String {
    Fingerprint::from_octets([octet; 32]).to_string()
}

/// Returns the good configuration with a change.
fn changed(from: &str, to: &str) -> String {
    let text = GOOD.replacen(from, to, 1);
    assert!(from == to || text != GOOD, "{from}");
    text.replace("KEY2", &key(2)).replace("KEY3", &key(3))
}

fn good() -> String {
    changed("", "")
}

fn parse(text: &str) -> Result<DomainConfig, String> {
    DomainConfig::parse(text, Path::new("/etc/lighthaul")).map_err(|why| why.to_string())
}

#[test]
fn documented_form_is_read_with_units_paths_and_defaults() {
    let config = parse(&good()).unwrap();
    assert_eq!((config.me(), config.name.as_str()), (DomainId(1), "campus"));
    assert_eq!(config.key, Path::new("/etc/lighthaul/domain.key"));
    assert_eq!(config.store, Path::new("/var/lib/lighthaul/domain.db"));
    assert_eq!(config.machine.timing.hold, Duration::from_secs(4));
    assert_eq!(config.machine.timing.query, Timing::default().query);
    assert_eq!(config.requests_max, 10);
    let two = &config.neighbors[&DomainId(2)];
    let address = two.address.as_ref().map(ToString::to_string);
    assert_eq!(address.as_deref(), Some("backbone.example:7450"));
    assert_eq!(two.expires.as_nanos(), 1_935_381_600_000_000_000);
    let policy = config.machine.neighbors[&DomainId(2)];
    assert_eq!(policy.rate_max, Rate::from_mbps(1000));
    assert_eq!(policy.rate_total_max, Rate::from_mbps(5000));
    assert_eq!((policy.reservations_max, policy.transit), (100, false));
    assert_eq!(policy.uncommitted_per_hour, Duration::from_mins(5));
    assert_eq!(policy.horizon, Duration::from_hours(2));
    assert!(config.machine.neighbors[&DomainId(3)].transit);
    assert_eq!(config.topology.out(DomainId(1)).len(), 1);
    assert_eq!(config.topology.out(DomainId(2))[0].to, DomainId(1));
    assert_eq!(config.topology.out(DomainId(3))[0].cost, 7);
    assert_eq!(config.devices.drivers.len(), 2);
    let segment = Segment {
        ingress: PortId(12),
        egress: PortId(100),
    };
    let circuit = &config.devices.circuits[&segment];
    assert_eq!(circuit.interface, "eth1");
    assert_eq!(circuit.flow, "udp 10.0.0.2/32".parse().unwrap());
    let network = &config.network;
    assert!(network.ports.contains_key(&PortId(100)));
    // two links for each of three ports, and two between the nodes
    assert_eq!(network.topology.links().count(), 8);
    let about = |name| {
        let link = network.topology.link(name).unwrap();
        network.topology.about(link).unwrap().clone()
    };
    assert_eq!(about("port 100 in").channel, Rate::from_mbps(100));
    assert_eq!(about("port 12 out").channel, Rate::from_mbps(1));
    let slow = about("port 13 in");
    assert_eq!(slow.channel, slow.capacity);
}

#[test]
fn switches_and_end_points_are_read_from_the_directory_of_the_file() {
    let more = "[[device]]\ninterface = \"wan\"\nswitch = \"switch.toml\"\n\
                [[endpoint]]\nname = \"chicago\"\ndomain = 2\nport = 7\n[[circuit]]";
    let config = parse(&changed("[[circuit]]", more)).unwrap();
    let DriverConfig::Tl1(file) = &config.devices.drivers["wan"] else {
        panic!("{:?}", config.devices.drivers);
    };
    assert_eq!(file, Path::new("/etc/lighthaul/switch.toml"));
    assert_eq!(config.endpoints["chicago"].to_string(), "2:7");
    let why = config.devices.open().unwrap_err().to_string();
    assert!(why.contains("cannot use the device at"), "{why}");
}

#[test]
fn device_that_was_known_before_is_opened_later() {
    let folder = super::site::Folder::new("late");
    let (flag, store) = (folder.0.join("flag"), folder.0.join("domain.db"));
    // a program that starts once a file exists
    let program = format!(
        r#"test -e {} || exit 3
        read -r hello
        echo '{{"seq":1,"version":1,"capabilities":{{"rate_min_bps":1000000,"rate_max_bps":10000000,"granularity_bps":1000000,"reconfiguration_ns":0,"settling_ns":0,"circuits_max":9,"counted":{{"layer":"ip","overhead_bytes":0}}}}}}'
        nth=1
        while read -r next; do
            nth=$((nth + 1))
            echo '{{"seq":'$nth',"circuits":[]}}'
        done"#,
        flag.display()
    );
    let mut config = parse(&good()).unwrap();
    let exec = lighthaul_circuit::exec::config::Config {
        program: "/bin/sh".into(),
        arguments: vec!["-c".to_owned(), program],
        limit: PATIENCE,
    };
    config.devices.drivers = [("eth1".to_owned(), DriverConfig::Exec(exec))].into();
    let open = |known: &KnownDevices| config.devices.open_known(known);
    let mut known = KnownDevices::read(&store);
    let why = open(&known).unwrap_err().to_string();
    assert!(why.contains("status: 3"), "nothing is known: {why}");
    fs::write(&flag, "").unwrap();
    let devices = open(&known).unwrap();
    let capabilities = devices.capabilities().clone();
    known.note(&capabilities);
    drop(devices);
    // the next start
    fs::remove_file(&flag).unwrap();
    let mut devices = open(&KnownDevices::read(&store)).unwrap();
    assert_eq!(*devices.capabilities(), capabilities);
    assert_eq!(devices.reset(Instant::ZERO, &[]), []);
    while devices.next_call().is_some() {
        assert_eq!(devices.apply(Instant::ZERO, &[]), []);
    }
    assert!(!devices.empty().contains("eth1"), "it was not read");
    fs::write(&flag, "").unwrap();
    let clock = Clock::start();
    while !devices.empty().contains("eth1") {
        assert!(clock.now() < Instant::ZERO + PATIENCE);
        assert_eq!(devices.apply(Instant::ZERO, &[]), []);
        pause(Duration::from_millis(20));
    }
}

#[test]
fn example_of_the_guide_is_accepted() {
    let guide = include_str!("../../../../docs/src/domains.md");
    let (_, text) = guide.split_once("```toml\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let config = parse(text).unwrap();
    assert_eq!(config.neighbors.len(), 1);
    assert_eq!(config.topology.out(config.me()).len(), 1);
}

#[test]
fn faults_are_refused_with_a_place_or_a_remedy() {
    for (from, to, says) in FAULTS {
        let why = parse(&changed(from, to)).unwrap_err();
        assert!(why.contains(says), "{from} -> {to}: {why}");
    }
}

#[test]
fn missing_file_and_faulty_file_are_named() {
    let folder = super::site::Folder::new("configurations");
    let path = folder.0.join("domain.toml");
    let why = DomainConfig::read(&path).unwrap_err().to_string();
    assert!(
        why.contains("domain.toml") && why.contains("check the path"),
        "{why}"
    );
    fs::write(&path, "domain = 1\n").unwrap();
    let why = DomainConfig::read(&path).unwrap_err().to_string();
    assert!(
        why.contains("domain.toml") && why.contains("missing field"),
        "{why}"
    );
    fs::write(&path, good()).unwrap();
    let config = DomainConfig::read(&path).unwrap();
    assert_eq!(config.key, folder.0.join("domain.key"));
}

/// Changes of the good configuration, and what each fault says.
const FAULTS: &[(&str, &str, &str)] = &[
    (
        "transit = false",
        "transit = false\ncolor = 1",
        "unknown field",
    ),
    ("name = \"campus\"", "", "missing field"),
    (
        "requests_max",
        "given_up = [\"eth1\"]\nrequests_max",
        "eth1 has a [[device]], and is in given_up",
    ),
    ("\"10Gb/s\"", "\"10\"", "line 13, column 12"),
    ("\"4s\"", "\"4\"", "line 9"),
    ("backbone.example:7450", "backbone.example", "use HOST:PORT"),
    ("2031-05-01T06:00:00Z", "soon", "is no time"),
    ("KEY2", "md5:2", "not a fingerprint"),
    ("[::1]:7450", "here", "line 4"),
    ("number = 13", "number = 12", "port 12 is defined twice"),
    ("domain = 3", "domain = 2", "neighbor 2 is defined twice"),
    ("domain = 3", "domain = 1", "neighbor 1 is this domain"),
    ("KEY3", "KEY2", "neighbors 2 and 3 have the same key"),
    ("port = 13", "port = 14", "has no such port"),
    ("from = 3", "from = 4", "add a [[neighbor]] with domain = 4"),
    ("from = 3", "from = 1", "starts and ends"),
    (
        "port = 13\nfrom = 3",
        "port = 12\nfrom = 2",
        "domain link 12 is defined twice",
    ),
    ("from = \"core\"", "from = \"lost\"", "no links connect"),
    ("from = \"core\"", "from = \"edge\"", "two different ends"),
    ("hold = \"4s\"", "hold = \"0s\"", "[timing]"),
    ("hold = \"4s\"", "hold = \"4m\"", "[timing]"),
    (
        "requests_max = 10",
        "requests_max = 0",
        "requests_max is zero",
    ),
    ("requests_max = 10", "paths_max = 0", "paths_max is zero"),
    (
        "horizon = \"2h\"",
        "horizon = \"4000d\"",
        "at most ten years",
    ),
    (
        "uncommitted_per_hour = \"5m\"",
        "uncommitted_per_hour = \"59s\"",
        "at least hold_max",
    ),
    (
        "hold = \"4s\"",
        "hold_max = \"301s\"",
        "neighbor 2 is shorter",
    ),
    (
        "capacity = \"10Gb/s\"\n[[device]]",
        "[[device]]",
        "needs one of capacity",
    ),
    (
        "program = ",
        "capacity = \"1Gb/s\"\nprogram = ",
        "needs one of capacity",
    ),
    ("\"1/1/3\"", "\"eth1\"", "device eth1 is defined twice"),
    ("ingress = 12", "ingress = 14", "a circuit uses port 14"),
    (
        "flow = \"udp 10.0.0.2/32\"",
        "flow = \"udp\"",
        "packets in common",
    ),
    ("flow = \"udp 10.0.0.2/32\"", "flow = \"odd\"", "line "),
    (
        "ingress = 100\negress = 12",
        "ingress = 12\negress = 100",
        "from port 12 to port 100 is defined twice",
    ),
    (
        "interface = \"eth1\"\nflow",
        "interface = \"eth2\"\nflow",
        "eth2, which has no device",
    ),
    ("channel = \"100Mb/s\"", "channel = \"2Gb/s\"", "channels"),
    (
        "[[circuit]]",
        "[[device]]\ninterface = \"wan\"\nprogram = \"/bin/sw1\"\nswitch = \"switch.toml\"\n[[circuit]]",
        "device wan needs one of capacity",
    ),
    (
        "[[circuit]]",
        "[[endpoint]]\nname = \"list\"\ndomain = 1\nport = 100\n[[circuit]]",
        "\"list\" cannot name an end point",
    ),
    (
        "[[circuit]]",
        "[[endpoint]]\nname = \"a\"\ndomain = 1\nport = 100\n[[endpoint]]\nname = \"a\"\ndomain = 2\nport = 1\n\
         [[circuit]]",
        "end point a is defined twice",
    ),
];

const GOOD: &str = r#"
domain = 1
name = "campus"
listen = "[::1]:7450"
key = "domain.key"
store = "/var/lib/lighthaul/domain.db"
requests_max = 10
[timing]
hold = "4s"
[[port]]
number = 12
node = "core"
capacity = "10Gb/s"
[[port]]
number = 13
node = "edge"
capacity = "500kb/s"
[[port]]
number = 100
node = "edge"
capacity = "1Gb/s"
channel = "100Mb/s"
[[link]]
from = "core"
to = "edge"
capacity = "40Gb/s"
both = true
[[neighbor]]
domain = 2
name = "backbone"
address = "backbone.example:7450"
key = "KEY2"
expires = "2031-05-01T06:00:00Z"
rate_max = "1Gb/s"
rate_total_max = "5Gb/s"
reservations_max = 100
uncommitted_per_hour = "5m"
horizon = "2h"
transit = false
[[neighbor]]
domain = 3
name = "other"
key = "KEY3"
[[domain_link]]
port = 12
from = 1
to = 2
both = true
[[domain_link]]
port = 13
from = 3
to = 1
cost = 7
[[device]]
interface = "eth1"
capacity = "10Gb/s"
[[device]]
interface = "1/1/3"
program = "/usr/libexec/switch"
arguments = ["--port", "3"]
limit = "20s"
[[circuit]]
ingress = 12
egress = 100
interface = "eth1"
flow = "udp 10.0.0.2/32"
[[circuit]]
ingress = 100
egress = 12
interface = "eth1"
flow = "udp 10.0.0.3/32"
"#;
