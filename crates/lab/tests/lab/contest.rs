//! Tests of contests: each flow gets a part of the link, and together they do not exceed it.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_lab::contest::flow::Flow;
use lighthaul_lab::contest::plan::ContestPlan;
use lighthaul_lab::contest::run::run;
use lighthaul_lab::contest::shared_link::SharedLink;

use lighthaul_testkit::Turn;

use crate::alone::is_skipped;

#[test]
fn machines_and_tcp_share_a_link() {
    if is_skipped("machines_and_tcp_share_a_link") {
        return;
    }
    let _turn = Turn::alone();
    let link = SharedLink {
        rate: Rate::from_mbps(20),
        rtt: Duration::from_millis(10),
        queue_packets_min: 50,
    };
    let flow = |protocol: &str, start| Flow {
        protocol: protocol.parse().unwrap(),
        start: Duration::from_millis(start),
    };
    let flows = [flow("sabul", 0), flow("reno", 0), flow("sabul-swift", 9000)];
    let (time, interval) = (Duration::from_secs(4), Duration::from_millis(500));
    let samples = run(&link, &flows, time, interval).unwrap();
    assert_eq!(samples.len(), 8);
    assert!(samples.is_sorted_by(|a, b| a.iter().zip(b).all(|(a, b)| a <= b)));
    let [sabul, reno, late] = samples[7].as_slice() else {
        panic!("{samples:?}");
    };
    assert!(*sabul > 500_000 && *reno > 500_000, "{samples:?}");
    assert_eq!(*late, 0, "the flow started too early");
    let most = link.rate.bytes_in(time);
    assert!(sabul + reno <= most, "{sabul} and {reno} of {most}");
}

#[test]
fn small_transfers_and_trials_have_plausible_results() {
    if is_skipped("small_transfers_and_trials_have_plausible_results") {
        return;
    }
    let _turn = Turn::alone();
    let mice = ContestPlan::parse("mice", MICE).unwrap().measure().unwrap();
    let took = mice.number(0.0, "alone_most_emulation").unwrap();
    // A handshake, the bytes, and the close of the connection.
    assert!((0.04..0.6).contains(&took), "{took} s");
    let trials = ContestPlan::parse("trials", TRIALS).unwrap();
    let table = trials.measure().unwrap();
    let goodput = table.number(200.0, "memory_goodput_emulation").unwrap();
    assert!((30.0..101.0).contains(&goodput), "{goodput} %");
    let lost = table.number(200.0, "memory_lost_emulation").unwrap();
    assert!((0.0..50.0).contains(&lost), "{lost} %");
}

const MICE: &str = r#"
    title = "t"
    [mice]
    link = { rate = "100Mb/s", rtt = "20ms", queue_packets = 100 }
    crowds = [0]
    transfers = 5
    size = "100kB"
    every = "10ms"
    tcp = "reno"
    curve = [{ name = "alone", label = "A", beside = "sabul" }]
"#;
const TRIALS: &str = r#"
    title = "t"
    [trials]
    rates = ["200Mb/s"]
    object = "5MB"
    runs = 1
    curve = [{ name = "memory", label = "M" }]
"#;
