//! Boundaries of ranges at three kinds of devices in one path: an interface that Linux shapes, a switch that speaks
//! TL1, and a driver program.
//!
//! ```text
//!   domain 1                 domain 2                     domain 3
//!   HTB, the kernel          switch with channels of      program, which notes
//!   reports each change      4 Mb/s, one command          the time of each request
//!                            at a time
//! ```
//!
//! A path lasts the whole time, and others between the same ports begin and end meanwhile. So at each boundary the
//! kernel changes a rate, the program gets a request, and the switch makes or removes four cross-connects. Each device
//! notes when the last command of the boundary reaches it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lighthaul_base::trc::Trc;
use lighthaul_base::{Instant, Rate};
use lighthaul_domains::{Service, Ticket};
use lighthaul_io::host::namespace::Namespace;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{Outcome, Signaling};

use super::books;
use super::boundaries::{LOW, MORE, Monitor};
use super::running::{Chain, Ends, ms, percentile, request, wall_now};
use crate::emulator::{Emulator, Vendor};

/// Times at which the last command of each boundary reaches the devices of three domains.
pub(crate) struct MixedBoundaries {
    /// Time of the switch for each command.
    pub(crate) pace: Duration,
    /// Guard time of the path: an increased rate carries nothing until its end.
    pub(crate) guard: Duration,
    /// Time from each boundary to the last command at the device of each domain, in ascending order.
    pub(crate) reached: [Vec<Duration>; 3],
    /// Time from the first to the last of the domains, for each boundary, in ascending order.
    pub(crate) apart: Vec<Duration>,
    /// Time from the last command of each increase to the end of the guard time, in ascending order; zero if it is late.
    pub(crate) ahead: Vec<Duration>,
}

impl MixedBoundaries {
    /// Books the paths, and reads when the devices changed. This needs root.
    pub(crate) fn measure(folder: &Path, rounds: u32, pace: Duration) -> Self {
        let host = Host::create();
        let monitor = Monitor::start(&host.0, folder, 0);
        let switch = Emulator::start(Vendor::Calient);
        let services = start(&host, (&switch, pace), folder);
        switch.set_pace(pace);
        let handle = services[0].handle();
        let begin = wall_now() + Duration::from_secs(5);
        let ask = |mbps, from, time| {
            let wanted = request([1, 3], Rate::from_mbps(mbps), from, time);
            handle.request(wanted).unwrap()
        };
        let base = ask(LOW, begin, (rounds + 3) * PERIOD);
        let more = (1..=rounds).map(|nth| ask(MORE, begin + nth * PERIOD, PERIOD / 2));
        let more: Vec<Ticket> = more.collect();
        let paths = [&base].into_iter().chain(&more);
        let paths: Ends = paths.map(|one| (one.id, [1, 3])).collect();
        let (_, guard) = committed(&base);
        let more: Vec<Trc> = more.iter().map(|one| committed(one).0).collect();
        books::assert_agree(&services, &paths, CAPACITY);
        let last = more.iter().map(Trc::end).max().unwrap();
        pause((last + PERIOD / 2).since(wall_now()));
        let arrivals = [
            monitor.end(),
            switch.change_arrivals(),
            program_arrivals(folder),
        ];
        for one in services {
            one.stop().unwrap();
        }
        Self::of(&more, &arrivals, pace, guard)
    }

    /// Finds the last command of each boundary.
    fn of(more: &[Trc], arrivals: &[Vec<Instant>; 3], pace: Duration, guard: Duration) -> Self {
        let starts = more.iter().map(|one| (one.start(), true));
        let ends = more.iter().map(|one| (one.end(), false));
        let due: BTreeMap<Instant, bool> = starts.chain(ends).collect();
        let mut found = Self {
            pace,
            guard,
            reached: [const { Vec::new() }; 3],
            apart: Vec::new(),
            ahead: Vec::new(),
        };
        for (at, is_increase) in &due {
            let last = arrivals.each_ref().map(|all| {
                let here = all
                    .iter()
                    .filter(|one| **one >= *at && **one < *at + PERIOD / 3);
                *here
                    .max()
                    .unwrap_or_else(|| panic!("no command within {PERIOD:?} / 3"))
            });
            for (reached, last) in found.reached.iter_mut().zip(last) {
                reached.push(last.since(*at));
            }
            let (first, last) = (last.iter().min().unwrap(), last.iter().max().unwrap());
            found.apart.push(last.since(*first));
            if *is_increase {
                found.ahead.push((*at + guard).since(*last));
            }
        }
        found
            .reached
            .iter_mut()
            .for_each(|times| times.sort_unstable());
        found.apart.sort_unstable();
        found.ahead.sort_unstable();
        found
    }
}

impl fmt::Display for MixedBoundaries {
    /// Writes a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pace,
            guard,
            reached,
            apart,
            ahead,
        } = self;
        writeln!(
            f,
            "{} boundaries; the switch takes {:.0} ms for a command, and the guard time is {:.0} ms\n",
            apart.len(),
            ms(*pace),
            ms(*guard),
        )?;
        writeln!(f, "| last command of a boundary | median | longest |")?;
        writeln!(f, "|---|---|---|")?;
        let names = [
            "at the interface that Linux shapes, after the boundary",
            "at the switch that speaks TL1, after the boundary",
            "at the driver program, after the boundary",
        ];
        let rows = names.iter().zip(reached);
        let rows = rows.chain([(&"from the first to the last domain", apart)]);
        for (name, times) in rows {
            let (median, longest) = (percentile(times, 50), percentile(times, 100));
            writeln!(
                f,
                "| {name} | {:.1} ms | {:.1} ms |",
                ms(median),
                ms(longest)
            )?;
        }
        write!(
            f,
            "\neach increase is complete at least {:.1} ms before packets may use it",
            ms(ahead[0])
        )
    }
}

/// Host of the interface that Linux shapes.
struct Host(Namespace);

impl Host {
    fn create() -> Self {
        let host = Self(Namespace::create().unwrap());
        for words in [
            "link add wire type veth peer name far",
            "link set wire up",
            "link set far up",
        ] {
            let mut command = Command::new("ip");
            command
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .args(words.split(' '));
            let output = host.0.within(|| command.output()).unwrap();
            assert!(output.status.success(), "ip {words}: {output:?}");
        }
        host
    }
}

/// Starts the domains, each with a device of its kind.
fn start(host: &Host, (switch, pace): (&Emulator, Duration), folder: &Path) -> Vec<Service> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let login = write("login", "ada\nsecret\n");
    let channels = (0..CHANNELS).map(|nth| format!("[\"1.1.{nth}\", \"2.1.{nth}\"]"));
    let channels: Vec<String> = channels.collect();
    let settings = format!(
        "address = \"{}\"\ndialect = \"calient\"\ndirection = \"two-way\"\nlogin = \"{}\"\nrecords = \"{}\"\n\
         channel_rate = \"{CHANNEL_MBPS}Mb/s\"\nreconfiguration = \"10ms\"\ncommand_time = \"{}ms\"\n[interfaces]\nwan = [{}]\n",
        switch.address(),
        login.display(),
        folder.display(),
        pace.as_millis(),
        channels.join(", ")
    );
    write("switch.toml", &settings);
    let program = write("driver", PROGRAM);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let devices = [
        "interface = \"wire\"\ncapacity = \"100Mb/s\"".to_owned(),
        "interface = \"wan\"\nswitch = \"switch.toml\"".to_owned(),
        format!("interface = \"sw1\"\nprogram = \"{}\"", program.display()),
    ];
    let chain = Chain {
        folder,
        count: 3,
        capacity: "100Mb/s",
        delay: Duration::from_millis(20),
        timing: "[timing]\nquery = \"1s\"\nhold = \"1s\"\ndecide = \"1s\"\n",
        signaling: Signaling::Chain,
    };
    let tables = |me: u32| {
        let nth = me as usize - 1;
        let [ingress, egress] = [[101, 1], [1, 2], [2, 103]][nth];
        let device = &devices[nth];
        let interface = device.split('"').nth(1).unwrap();
        format!(
            "[[device]]\n{device}\n[[circuit]]\ningress = {ingress}\negress = {egress}\ninterface = \"{interface}\"\n\
             flow = \"udp 10.9.3.2/32\"\n"
        )
    };
    chain.start_with(&tables, &|me, config| {
        let open = || config.devices.open().unwrap();
        let opened = if me == 1 {
            host.0.within(|| Ok(open())).unwrap()
        } else {
            open()
        };
        config.add_limits(opened.capabilities()).unwrap();
        Box::new(opened)
    })
}

/// Returns the rates and the guard time of a path once it is committed.
fn committed(ticket: &Ticket) -> (Trc, Duration) {
    match ticket.wait(Duration::from_mins(1)).unwrap() {
        Some(Outcome::Committed { vector, guard, .. }) => (vector, guard),
        outcome => panic!("{outcome:?}"),
    }
}

/// Returns the times at which the program got rates.
fn program_arrivals(folder: &Path) -> Vec<Instant> {
    let text = fs::read_to_string(folder.join("driver.log")).unwrap();
    let time = |line: &str| {
        let micros: u64 = line.replace('.', "").parse().unwrap();
        Instant::from_nanos(micros * 1000)
    };
    text.lines().map(time).collect()
}

/// Time between the begins of two paths.
const PERIOD: Duration = Duration::from_millis(1500);
/// Rate of a channel of the switch in Mb/s. A path of [`MORE`] has four of them.
const CHANNEL_MBPS: u64 = 4;
const CHANNELS: u64 = 12;
/// Capacity of the ports in b/s.
const CAPACITY: u64 = 100_000_000;
/// Driver that notes the time of each request for rates, and accepts it.
const PROGRAM: &str = r#"#!/bin/bash
circuits=
value() {
    value=${line#*\"$1\":}
    value=${value%%[,\}]*}
}
while read -r line; do
    now=$EPOCHREALTIME
    value seq; seq=$value
    case $line in
    *'"hello"'*)
        content='"version":1,"capabilities":{"rate_min_bps":1000000,"rate_max_bps":1000000000,"granularity_bps":1000000,"reconfiguration_ns":1000,"settling_ns":0,"circuits_max":9,"counted":{"layer":"ip","overhead_bytes":0}}' ;;
    *'"inspect"'*) content="\"circuits\":[$circuits]" ;;
    *'"remove"'*) circuits= content='"results":[null]' ;;
    *)
        echo "$now" >> "$0.log"
        value id; id=$value; value flow; flow=$value; value rate_bps
        circuits="{\"id\":$id,\"flow\":$flow,\"rate_bps\":$value}"
        content='"results":[null]' ;;
    esac
    echo "{\"seq\":$seq,$content}"
done
"#;
