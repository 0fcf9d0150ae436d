//! The link keeps its promises: rate within 1 %, delay within 0.5 ms, loss within its binomial interval.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::host::clock::Clock;
use lighthaul_lab::counters::EmulatorCounters;
use lighthaul_lab::emulate::Lab;

use crate::start::{Alone, pair, start};
use crate::traffic::{Blaster, Counter, ping};

#[test]
fn link_carries_its_rate() {
    for mbps in [100, 1000] {
        let description = pair(&format!(
            "rate = \"{mbps}Mb/s\"\nrtt = \"10ms\"\nqueue = \"20MB\""
        ));
        let (offered, time) = (Rate::from_mbps(mbps * 5 / 4), Duration::from_millis(1500));
        let measured = untroubled("link_carries_its_rate", &description, |lab| {
            blast(lab, 1500, offered, time)
        });
        let Some((_alone, counter)) = measured else {
            return;
        };
        let (got, asked) = (counter.rate().as_mbps_f64(), mbps as f64);
        assert!((got / asked - 1.0).abs() < 0.01, "{got} of {asked} Mb/s");
    }
}

#[test]
fn link_adds_its_delay() {
    let description = pair("rate = \"1Gb/s\"\nrtt = \"40ms\"");
    let Some(alone) = start("link_adds_its_delay", &description) else {
        return;
    };
    assert_has_delay(&alone.lab, ("a", "b"), 0.020);
}

#[test]
fn losses_are_single_at_the_requested_rate() {
    let description =
        pair("rate = \"2Gb/s\"\nqueue = \"100MB\"\ndelay = \"5ms\"\nforward = { loss = \"1%\" }");
    let name = "losses_are_single_at_the_requested_rate";
    let measured = untroubled(name, &description, |lab| {
        blast(lab, 500, Rate::from_mbps(400), Duration::from_secs(1))
    });
    let Some((alone, counter)) = measured else {
        return;
    };
    let seen = alone.lab.counters().link("a", "b").unwrap().seen;
    let (offered, lost) = (seen.offered.packets, seen.dropped_loss.packets);
    assert!(offered > 90_000, "{offered} offered");
    assert_eq!(counter.numbers.len() as u64 + lost, offered);
    // four standard deviations of a binomial distribution
    let (mean, sigma) = (offered as f64 * 0.01, (offered as f64 * 0.01 * 0.99).sqrt());
    assert!(
        (lost as f64 - mean).abs() < 4.0 * sigma,
        "{lost} of {offered} lost, not {mean}"
    );
    let gaps = counter
        .numbers
        .windows(2)
        .filter(|pair| pair[1] != pair[0] + 1)
        .count();
    assert!(
        gaps as f64 > 0.95 * lost as f64,
        "{lost} losses in {gaps} gaps"
    );
}

#[test]
fn full_queue_drops_new_packets() {
    // twelve milliseconds a packet: what leaves during the burst is nothing or nearly so
    let description = pair("rate = \"1Mb/s\"\nqueue = \"150000B\"");
    let Some(alone) = start("full_queue_drops_new_packets", &description) else {
        return;
    };
    let counter = Counter::new(&alone.lab, "b", Clock::start());
    let mut blaster = Blaster::new(&alone.lab, "a", counter.address(), 1500);
    let clock = Clock::start();
    for _ in 0..5 {
        blaster.train(40);
    }
    let seen = || alone.lab.counters().link("a", "b").unwrap().seen;
    while seen().offered.packets < 200 && clock.now().as_secs_f64() < 60.0 {
        std::thread::yield_now();
    }
    // each packet that has left makes room for one more
    let left = clock.now().as_nanos() / 12_000_000;
    let seen = seen();
    assert_eq!(seen.offered.packets, 200);
    assert!(
        (100..=102 + left).contains(&seen.delivered.packets),
        "{} fit, {left} left",
        seen.delivered.packets
    );
    assert_eq!(seen.delivered.packets + seen.dropped_queue.packets, 200);
}

#[test]
fn packets_are_reordered_and_duplicated() {
    let harm = "rate = \"100Mb/s\"\nreorder = \"5% by 2ms\"\nduplicate = \"3%\"";
    let name = "packets_are_reordered_and_duplicated";
    let measured = untroubled(name, &pair(harm), |lab| {
        blast(lab, 1000, Rate::from_mbps(80), Duration::from_secs(1))
    });
    let Some((alone, counter)) = measured else {
        return;
    };
    let seen = alone.lab.counters().link("a", "b").unwrap().seen;
    let (mut known, mut late, mut twice, mut highest) = (BTreeSet::new(), 0, 0, 0);
    for &number in &counter.numbers {
        if !known.insert(number) {
            twice += 1;
        } else if number < highest {
            late += 1;
        }
        highest = highest.max(number);
    }
    assert_eq!(twice, seen.duplicated.packets);
    assert!(
        (400..600).contains(&seen.reordered.packets),
        "{} late",
        seen.reordered.packets
    );
    // no packet is left that could overtake the last few
    let missed = seen.reordered.packets - late;
    assert!(missed < 30, "{missed} of the late were not overtaken");
}

#[test]
fn sites_share_a_bottleneck_and_keep_their_delays() {
    let description = r#"
        host = [{ name = "near" }, { name = "far" }, { name = "sink" }]
        router = [{ name = "left" }, { name = "right" }]
        link = [
            { between = ["near", "left"], delay = "2ms" },
            { between = ["far", "left"], delay = "12ms" },
            { between = ["left", "right"], rate = "200Mb/s", delay = "5ms" },
            { between = ["right", "sink"], delay = "1ms" },
        ]
    "#;
    let name = "sites_share_a_bottleneck_and_keep_their_delays";
    let measured = untroubled(name, description, |lab| {
        for (site, delay) in [("near", 0.008), ("far", 0.018)] {
            assert_has_delay(lab, (site, "sink"), delay);
        }
        blast_from_both(lab)
    });
    let Some((alone, counter)) = measured else {
        return;
    };
    let got = counter.rate().as_mbps_f64();
    // before the second site's packets come, the first is alone for ten milliseconds
    assert!((195.0..202.0).contains(&got), "{got} Mb/s through 200");
    let counters = alone.lab.counters();
    let through = counters.link("left", "right").unwrap().seen;
    assert!(through.dropped_queue.packets > 0);
    assert_eq!(
        counters.link("right", "sink").unwrap().seen.offered,
        through.delivered
    );
}

#[test]
fn loss_can_exclude_tcp() {
    let description = pair("delay = \"1ms\"\nspare_tcp = true\nforward = { loss = \"50%\" }");
    let Some(alone) = start("loss_can_exclude_tcp", &description) else {
        return;
    };
    let listener = alone
        .lab
        .within("b", || TcpListener::bind("0.0.0.0:0"))
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = alone.lab.address("b").unwrap();
    let mut stream = alone
        .lab
        .within("a", || TcpStream::connect((address, port)))
        .unwrap();
    stream.write_all(&vec![0; 60_000]).unwrap();
    drop(stream);
    let (mut far, _) = listener.accept().unwrap();
    assert_eq!(io::copy(&mut far, &mut io::sink()).unwrap(), 60_000);
    assert_eq!(
        alone
            .lab
            .counters()
            .link("a", "b")
            .unwrap()
            .seen
            .dropped_loss
            .packets,
        0
    );
}

/// Returns a lab of `description` and the counts of `run` in it. Of up to ten labs it is the first in which neither the
/// emulator nor the receiver lost anything. Returns `None` if the test is skipped.
fn untroubled(
    test: &str,
    description: &str,
    run: impl Fn(&Lab) -> Counter,
) -> Option<(Alone, Counter)> {
    let mut seen = Vec::new();
    for _ in 0..10 {
        let alone = start(test, description)?;
        let counter = run(&alone.lab);
        let now = alone.lab.counters().emulator;
        if counter.drops == 0 && now == EmulatorCounters::default() {
            return Some((alone, counter));
        }
        seen.push((counter.drops, now));
    }
    panic!("this machine is too busy: {seen:?}");
}

/// No answer is early, and in one of ten attempts the median is at most half a millisecond late.
fn assert_has_delay(lab: &Lab, (source, target): (&str, &str), delay: f64) {
    let mut late = Vec::new();
    for _ in 0..10 {
        let now = ping(lab, source, target, 120).as_secs_f64() / 2.0 - delay;
        assert!(now > -0.0005, "{source}: {now} s late");
        if now < 0.0005 {
            return;
        }
        late.push(now);
    }
    panic!("{source}: {late:?} s late");
}

/// Sends to `sink` from `near` and `far` at once, together more than the link between the routers carries.
fn blast_from_both(lab: &Lab) -> Counter {
    let (clock, rate, time) = (Clock::start(), Rate::from_mbps(130), Duration::from_secs(1));
    let mut counter = Counter::new(lab, "sink", clock);
    let sites = ["near", "far"];
    let mut blasters = sites.map(|site| Blaster::new(lab, site, counter.address(), 1500));
    std::thread::scope(|scope| {
        let senders = blasters
            .each_mut()
            .map(|b| scope.spawn(|| b.blast(clock, rate, time, 10)));
        counter.receive_until(|counter| {
            senders
                .iter()
                .all(std::thread::ScopedJoinHandle::is_finished)
                && is_all_there(lab, ("right", "sink"), counter)
        });
    });
    counter
}

/// Sends from `a` to `b` at `offered` and receives all that the link delivers.
fn blast(lab: &Lab, packet_bytes: usize, offered: Rate, time: Duration) -> Counter {
    let clock = Clock::start();
    let mut counter = Counter::new(lab, "b", clock);
    let mut blaster = Blaster::new(lab, "a", counter.address(), packet_bytes);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| blaster.blast(clock, offered, time, 40));
        counter.receive_until(|counter| {
            sender.is_finished() && is_all_there(lab, ("a", "b"), counter)
        });
    });
    counter
}

/// Returns true if all packets that left the link have arrived, duplicates included.
fn is_all_there(lab: &Lab, (source, target): (&str, &str), counter: &Counter) -> bool {
    let counters = lab.counters();
    let seen = counters.link(source, target).unwrap().seen;
    counter.numbers.len() as u64 >= seen.delivered.packets + seen.duplicated.packets
}
