//! Boundaries of ranges at real devices: three hosts in a row, each of which Linux shapes for one domain.
//!
//! ```text
//!  one --wire1--> two --wire2--> three --wire3--> far
//!  HTB of domain 1   2              3
//! ```
//!
//! A path lasts the whole time, and others between the same ports begin and end meanwhile. So the rate of the circuit
//! rises and falls at each interface. The kernel reports each change, and packets cross all boundaries: the sender
//! follows the booked rates by its clock.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lighthaul_base::civil::unix_seconds;
use lighthaul_base::trc::Trc;
use lighthaul_base::{Instant, Rate};
use lighthaul_domains::{Service, Ticket};
use lighthaul_io::host::namespace::Namespace;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{Outcome, Signaling};

use super::books;
use super::running::{Chain, Ends, ms, percentile, request, wall_now};

/// Changes of rates at the interfaces of three domains, and packets across them.
pub(crate) struct Boundaries {
    /// Time from the first to the last interface, for each change, in ascending order.
    pub(crate) apart: Vec<Duration>,
    /// Time from the planned one to the last interface, in ascending order.
    pub(crate) late: Vec<Duration>,
    pub(crate) sent: u64,
    /// Packets that the class of the path has sent at each interface.
    pub(crate) carried: [u64; 3],
    /// Packets that the class of the path has dropped at each interface.
    pub(crate) dropped: [u64; 3],
    pub(crate) received: u64,
    /// Packets that arrived while the receiving program was too slow.
    pub(crate) overrun: u64,
}

impl Boundaries {
    /// Books the paths, sends packets over them, and reads what the kernels did. This needs root.
    pub(crate) fn measure(folder: &Path, rounds: u32) -> Self {
        let hosts = Hosts::create();
        let monitors = [0, 1, 2].map(|nth| Monitor::start(&hosts.0[nth], folder, nth));
        let services = start(&hosts, folder);
        let handle = services[0].handle();
        let begin = wall_now() + Duration::from_secs(5);
        let ask = |mbps, from, time| {
            let wanted = request([1, 3], Rate::from_mbps(mbps), from, time);
            handle.request(wanted).unwrap()
        };
        let base = ask(LOW, begin, (rounds + 6) * PERIOD);
        let more = (1..=rounds).map(|nth| ask(MORE, begin + nth * PERIOD, PERIOD / 2));
        let more: Vec<Ticket> = more.collect();
        let paths: Ends = [&base]
            .into_iter()
            .chain(&more)
            .map(|one| (one.id, [1, 3]))
            .collect();
        let base = vector(&base);
        let more: Vec<Trc> = more.iter().map(vector).collect();
        books::assert_agree(&services, &paths, CAPACITY);
        let traffic = send(&hosts, &base, &more);
        let classes = [0, 1, 2].map(|nth| hosts.class(nth));
        let seen = monitors.map(Monitor::end);
        for one in services {
            one.stop().unwrap();
        }
        let ends = more.iter().flat_map(|one| [one.start(), one.end()]);
        let due: BTreeSet<Instant> = ends.collect();
        let (mut apart, mut late) = (Vec::new(), Vec::new());
        for (nth, due) in due.iter().enumerate() {
            // the first change is the start of the first path
            let times = seen.each_ref().map(|seen| seen[nth + 1]);
            let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
            apart.push(last.since(*first));
            late.push(last.since(*due));
        }
        apart.sort_unstable();
        late.sort_unstable();
        Self {
            apart,
            late,
            carried: classes.map(|(carried, _)| carried),
            dropped: classes.map(|(_, dropped)| dropped),
            ..traffic
        }
    }
}

impl fmt::Display for Boundaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { apart, late, .. } = self;
        writeln!(
            f,
            "{} changes of rates reach the interfaces of three domains within {:.1} ms of each other \
             (median {:.1} ms), at most {:.1} ms after their time",
            apart.len(),
            ms(percentile(apart, 100)),
            ms(percentile(apart, 50)),
            ms(percentile(late, 100)),
        )?;
        let Self {
            sent,
            carried,
            dropped,
            received,
            overrun,
            ..
        } = self;
        write!(
            f,
            "packets across them: {sent} sent, {carried:?} passed the classes of the path, {dropped:?} dropped there, \
             {received} received, {overrun} dropped by a slow receiver"
        )
    }
}

/// Hosts of the domains, and one behind them.
struct Hosts([Namespace; 4]);

impl Hosts {
    fn create() -> Self {
        let hosts = Self([(); 4].map(|()| Namespace::create().unwrap()));
        for nth in 1..=3 {
            let far = hosts.0[nth].path();
            let far = far.display();
            let words = format!("link add wire{nth} type veth peer name from{nth} netns {far}");
            hosts.run(nth - 1, "ip", &words);
            for (host, name, last) in [(nth - 1, "wire", 1), (nth, "from", 2)] {
                hosts.run(
                    host,
                    "ip",
                    &format!("addr add 10.9.{nth}.{last}/24 dev {name}{nth}"),
                );
                hosts.run(host, "ip", &format!("link set {name}{nth} up"));
            }
        }
        for nth in 0..3 {
            let next = nth + 1;
            let words = format!("route add default via 10.9.{next}.2");
            hosts.run(nth, "ip", &words);
            let forward = || fs::write("/proc/sys/net/ipv4/ip_forward", "1");
            hosts.0[nth].within(forward).unwrap();
            // packets come back the way they went
            for back in 1..next {
                let words = format!("route add 10.9.{back}.0/24 via 10.9.{next}.1");
                hosts.run(next, "ip", &words);
            }
        }
        hosts
    }

    /// Runs a tool in a host and returns its output.
    fn run(&self, host: usize, tool: &str, words: &str) -> String {
        let mut command = Command::new(tool);
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .args(words.split(' '));
        let output = self.0[host].within(|| command.output()).unwrap();
        assert!(output.status.success(), "{tool} {words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the numbers of packets that the class of the path has sent and dropped at the interface of a domain.
    fn class(&self, nth: usize) -> (u64, u64) {
        let text = self.run(nth, "tc", &format!("-s class show dev wire{}", nth + 1));
        let mut lines = text.lines();
        let is_ours = |line: &str| line.contains(&format!(" rate {LOW}Mbit ceil {LOW}Mbit"));
        lines
            .find(|line| is_ours(line))
            .unwrap_or_else(|| panic!("no class: {text}"));
        let words: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        let before = |word: &str, back: usize| {
            let at = words.iter().position(|one| one.starts_with(word)).unwrap();
            words[at - back].parse().unwrap()
        };
        let dropped = words.iter().position(|one| *one == "(dropped").unwrap();
        let dropped = words[dropped + 1].trim_end_matches(',').parse().unwrap();
        (before("pkt", 1), dropped)
    }
}

/// Starts the domains, whose devices are the interfaces.
fn start(hosts: &Hosts, folder: &Path) -> Vec<Service> {
    let chain = Chain {
        folder,
        count: 3,
        capacity: "100Mb/s",
        delay: Duration::from_millis(20),
        timing: "[timing]\nquery = \"1s\"\nhold = \"1s\"\ndecide = \"1s\"\n",
        signaling: Signaling::Chain,
    };
    let tables = |me: u32| {
        let [ingress, egress] = [[101, 1], [1, 2], [2, 103]][me as usize - 1];
        format!(
            "[[device]]\ninterface = \"wire{me}\"\ncapacity = \"100Mb/s\"\n[[circuit]]\ningress = {ingress}\n\
             egress = {egress}\ninterface = \"wire{me}\"\nflow = \"udp 10.9.3.2/32\"\n"
        )
    };
    chain.start_with(&tables, &|me, config| {
        let opened = hosts.0[me as usize - 1].within(|| Ok(config.devices.open()));
        Box::new(opened.unwrap().unwrap())
    })
}

/// Returns the rates of a path once it is committed.
fn vector(ticket: &Ticket) -> Trc {
    match ticket.wait(Duration::from_mins(1)).unwrap() {
        Some(Outcome::Committed { vector, .. }) => vector,
        outcome => panic!("{outcome:?}"),
    }
}

/// Sends packets at three quarters of the booked rates, from a second after the start until one before the end.
#[expect(clippy::disallowed_methods, reason = "packets without a protocol")]
fn send(hosts: &Hosts, base: &Trc, more: &[Trc]) -> Boundaries {
    let receiver = hosts.0[3].within(|| UdpSocket::bind(TARGET)).unwrap();
    let sender = hosts.0[0].within(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    sender.connect(TARGET).unwrap();
    receiver.set_read_timeout(Some(PERIOD / 8)).unwrap();
    let is_over = AtomicBool::new(false);
    let (mut sent, mut received) = (0_u64, 0);
    thread::scope(|scope| {
        let arrivals = scope.spawn(|| {
            let mut buffer = [0; PACKET];
            let mut count = 0;
            // what is on its way when the sender ends arrives within the time limit
            while !is_over.load(Ordering::Relaxed) {
                while receiver.recv(&mut buffer).is_ok() {
                    count += 1;
                }
            }
            count
        });
        let last = more.iter().map(Trc::end).max().unwrap() + PERIOD;
        let mut due = base.start() + PERIOD / 2;
        while due < last {
            pause(due.since(wall_now()));
            sender.send(&[7; PACKET]).unwrap();
            sent += 1;
            let rates = [base]
                .into_iter()
                .chain(more)
                .filter_map(|one| one.rate_at(due));
            let bps: u64 = rates.map(Rate::as_bps).sum();
            let rate = Rate::from_bps(bps * 3 / 4).unwrap();
            due += rate.time_for(PACKET as u64 + HEADERS);
        }
        pause(PERIOD / 2);
        is_over.store(true, Ordering::Relaxed);
        received = arrivals.join().unwrap();
    });
    Boundaries {
        apart: Vec::new(),
        late: Vec::new(),
        sent,
        carried: [0; 3],
        dropped: [0; 3],
        received,
        overrun: overrun(&hosts.0[3]),
    }
}

/// Returns the number of datagrams that a host has dropped because a program was too slow.
fn overrun(host: &Namespace) -> u64 {
    let counters = host.within(|| fs::read_to_string("/proc/thread-self/net/snmp"));
    let counters = counters.unwrap();
    let mut lines = counters.lines().filter(|line| line.starts_with("Udp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, value) = pairs.find(|(name, _)| *name == "RcvbufErrors").unwrap();
    value.parse().unwrap()
}

/// Program that reports each change of the kernel, with its time.
pub(super) struct Monitor {
    program: Child,
    output: PathBuf,
}

impl Monitor {
    pub(super) fn start(host: &Namespace, folder: &Path, nth: usize) -> Self {
        let output = folder.join(format!("changes-{nth}"));
        let mut command = Command::new("tc");
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("TZ", "UTC")
            .args(["-tshort", "monitor"])
            .stdout(File::create(&output).unwrap());
        let program = host.within(|| command.spawn()).unwrap();
        Self { program, output }
    }

    /// Ends the program. Returns the times at which the rate of the circuit became another one of the two.
    pub(super) fn end(mut self) -> Vec<Instant> {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
        let text = fs::read_to_string(&self.output).unwrap();
        let mut changes: Vec<(Instant, u64)> = Vec::new();
        for line in text.lines().filter(|line| line.contains("class htb")) {
            let has = |mbps: &u64| line.contains(&format!(" rate {mbps}Mbit ceil {mbps}Mbit"));
            let Some(rate) = [LOW, LOW + MORE].into_iter().find(has) else {
                continue;
            };
            if changes.last().is_none_or(|(_, before)| *before != rate) {
                changes.push((time_of(line), rate));
            }
        }
        changes.into_iter().map(|(at, _)| at).collect()
    }
}

/// Returns the time of a line, `[2026-11-27T21:01:34.398407] class htb …`.
fn time_of(line: &str) -> Instant {
    let (time, _) = line.trim_start_matches('[').split_once(']').unwrap();
    let (seconds, micros) = time.split_once('.').unwrap();
    let seconds = unix_seconds(&format!("{seconds}Z")).unwrap();
    let micros: u64 = micros.parse().unwrap();
    Instant::from_nanos(seconds * 1_000_000_000 + micros * 1000)
}

const TARGET: &str = "10.9.3.2:5000";
/// Rate in Mb/s of the path that lasts the whole time.
pub(super) const LOW: u64 = 8;
/// Rate in Mb/s of the paths that begin and end in the meantime.
pub(super) const MORE: u64 = 16;
/// Capacity of the ports in b/s.
const CAPACITY: u64 = 100_000_000;
/// Time between the begins of two paths.
const PERIOD: Duration = Duration::from_millis(800);
/// Bytes of data in a packet.
const PACKET: usize = 1000;
/// Bytes of the headers of a packet.
const HEADERS: u64 = 42;
