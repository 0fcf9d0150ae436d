//! Programs that find three gateways at one address, in a network of namespaces, while gateways die, return and are
//! stopped.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lighthaul_io::host::namespace::{Namespace, check};
use lighthaul_io::host::wait::pause;
use lighthaul_testkit::{lacks, lacks_tool};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use crate::running::{Ends, Running, becomes_true};
use crate::scratch::Scratch;
use crate::{PROGRAM, board, last_word, say, shown};

/// Hosts at one switch: programs, elements, and the gateway near the targets with the one target there is.
struct Stage {
    scratch: Scratch,
    programs: Namespace,
    elements: Vec<Namespace>,
    /// Options of the elements for the other gateway.
    peer: [String; 2],
    /// Target of the elements' listeners.
    target: SocketAddr,
    _switch: Namespace,
    _egress: Running,
}

impl Stage {
    /// Sets the stage up, or records that the test is skipped.
    fn start(test: &str) -> Option<Self> {
        if lacks(
            test,
            check().map_err(|why| format!("needs namespaces: {why}")),
        ) || lacks_tool(test, "nft")
        {
            return None;
        }
        let scratch = Scratch::new(test);
        let switch = Namespace::create().unwrap();
        run(&switch, "ip link add switch type bridge");
        run(&switch, "ip link set switch up");
        let programs = host(&switch, 50);
        let elements: Vec<Namespace> = (1..=COUNT).map(|nth| host(&switch, nth)).collect();
        let near_targets = host(&switch, 60);
        // data that a program does not read stays with its gateway
        set(&programs, "tcp_rmem", "4096 16384 16384");
        set(&elements[1], "tcp_syncookies", "2");
        let target = near_targets.within(|| TcpListener::bind("127.0.0.1:0"));
        let target = target.unwrap();
        let place = target.local_addr().unwrap();
        thread::spawn(move || echo(&target));
        let path = |name: &str| scratch.at(name).to_str().unwrap().to_owned();
        std::fs::write(scratch.at("secret"), "what only elements know").unwrap();
        let pin = say(&["key", "--key", &path("targets")]);
        for nth in 1..=COUNT {
            let key = say(&["key", "--key", &path(&format!("host{nth}"))]);
            let allow = ["allow", &key, "element", "--gateway", "--allowed"];
            say(&[&allow[..], &[&path("allowed")]].concat());
        }
        let mut command = gateway(&scratch, "targets");
        command.args(["--listen", "10.9.0.60:4810", "--allow", "127.0.0.1:*"]);
        command.args(["--allowed", &path("allowed")]);
        let mut egress = start(&near_targets, command);
        egress.says("listening on");
        Some(Self {
            scratch,
            programs,
            elements,
            peer: ["10.9.0.60:4810".to_owned(), pin],
            target: place,
            _switch: switch,
            _egress: egress,
        })
    }

    /// Starts element `nth`, from 1.
    fn element(&self, nth: u8) -> Running {
        let path = |name: &str| self.scratch.at(name).to_str().unwrap().to_owned();
        let mut command = gateway(&self.scratch, &format!("host{nth}"));
        let [peer, pin] = &self.peer;
        command.args(["--peer", peer, "--pin", pin, "--forward"]);
        // all IPv4 addresses, or all addresses
        let everywhere = if nth == 3 { "[::]" } else { "0.0.0.0" };
        command.arg(format!("{everywhere}:8080={}", self.target));
        let members: Vec<String> = (1..=COUNT)
            .map(|nth| format!("10.9.0.{nth}:4811"))
            .collect();
        command.args(["--cluster", &members.join(","), "--cluster-listen"]);
        command.args([&members[usize::from(nth) - 1], "--cluster-key"]);
        command.args([&path("secret"), "--cluster-address", "10.9.0.100"]);
        let mut element = start(&self.elements[usize::from(nth) - 1], command);
        element.says("the link carries sessions");
        element
    }

    /// Starts programs that exchange data from now on.
    fn talk(&self) -> Vec<Talk> {
        (0..CALLS)
            .map(|_| Talk::begin(call(&self.programs)))
            .collect()
    }

    /// A program that has sent much and has not yet read the echo.
    fn fill(&self) -> TcpStream {
        let stream = call(&self.programs);
        let mut writer = stream.try_clone().unwrap();
        thread::spawn(move || {
            writer.write_all(&vec![7; LARGE]).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        stream
    }

    /// Interface that has the shared address.
    fn answering(&self) -> String {
        last_word(
            &run(&self.programs, "ip neigh show to 10.9.0.100"),
            "lladdr ",
        )
    }

    /// Returns the address of element `nth`.
    fn mac(&self, nth: u8) -> String {
        let host = &self.elements[usize::from(nth) - 1];
        last_word(&run(host, "ip link show dev eth0"), "link/ether ")
    }

    /// Returns the rules and addresses that remain at element `nth`.
    fn left(&self, nth: u8) -> String {
        let host = &self.elements[usize::from(nth) - 1];
        let (rules, addresses) = (run(host, "nft list ruleset"), run(host, "ip addr show"));
        let is_ours = |line: &&str| line.contains("lighthaul") || line.contains("10.9.0.100");
        let told = [rules, addresses].concat();
        told.lines().filter(is_ours).collect()
    }
}

#[test]
fn shared_address_spreads_programs_and_keeps_their_sessions() {
    let name = "shared_address_spreads_programs_and_keeps_their_sessions";
    let Some(stage) = Stage::start(name) else {
        return;
    };
    let mut elements: Vec<Running> = (1..=COUNT).map(|nth| stage.element(nth)).collect();
    elements[0].says("this element answers for 10.9.0.100, whose connections go to 3 of 3");
    // until all know it, two may take the same connection
    for other in &mut elements[1..] {
        other.says("element 1 answers for 10.9.0.100, whose connections go to 3 of 3");
    }
    let mut talks = stage.talk();
    let carried = shares();
    assert_eq!(carried.iter().sum::<u64>(), CALLS as u64);
    assert!(carried.iter().all(|count| *count > 4), "{carried:?}");
    assert_eq!(stage.answering(), stage.mac(1));
    // ICMP messages of a router go to all elements, since they do not name one
    let heard = || stage.elements.iter().map(complaints).collect::<Vec<_>>();
    let before = heard();
    complain(&stage.programs);
    becomes_true("all heard of it", || {
        heard()
            .iter()
            .zip(&before)
            .all(|(now, before)| *now == before + 1)
    });

    // the element that answers for the address dies: its sessions are reset, all others continue
    elements[0].kill();
    elements[1].says("this element answers for 10.9.0.100, whose connections go to 2 of 3");
    lose(&mut talks, carried[0]);
    assert_eq!(stage.answering(), stage.mac(2));
    talks.extend(stage.talk());

    // it returns and gets its share, and all other sessions stay with their elements
    elements[0] = stage.element(1);
    elements[0].says("whose connections go to 3 of 3");
    talks.extend(stage.talk());
    let carried = shares();
    assert!(carried[0] > 4, "{carried:?}");
    lose(&mut talks, 0);

    // it dies again and is restarted at once
    elements[0].kill();
    elements[0] = stage.element(1);
    elements[0].says("whose connections go to 3 of 3");
    lose(&mut talks, carried[0]);
    talks.extend(stage.talk());

    let second = elements.remove(1);
    stop(&stage, second, talks);

    // loading other rules removes ours, and the gateway restores them
    run(&stage.elements[2], "nft flush ruleset");
    becomes_true("the rules are back", || {
        stage.left(3).contains("table ip lighthaul_address")
    });
}

/// The second element accepts no new session. No program is refused, running sessions continue, and their data
/// arrives.
fn stop(stage: &Stage, mut second: Running, mut talks: Vec<Talk>) {
    let (is_over, programs) = (AtomicBool::new(false), &stage.programs);
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut calls = 0;
            while !is_over.load(Relaxed) {
                drop(call(programs));
                calls += 1;
            }
            calls
        });
        let ends = Ends(&is_over);
        let mut slow: Vec<TcpStream> = (0..12).map(|_| stage.fill()).collect();
        second.signal("TERM");
        second.says("stopping with");
        let before = shares()[1];
        talks.extend(stage.talk());
        assert!(shares()[1] <= before, "it accepted a new session");
        lose(&mut talks, 0);
        let told = stage.left(2);
        assert!(told.contains("table ip lighthaul_address"), "{told}");
        talks.clear();
        for stream in &mut slow {
            drink(stream, LARGE - LATE);
        }
        second.says("no session is left");
        pause(Duration::from_millis(500));
        for stream in &mut slow {
            drink(stream, LATE);
        }
        drop(slow);
        second.finish().assert_succeeded();
        assert_eq!(stage.left(2), "", "something of ours is left");
        pause(Duration::from_millis(500));
        drop(ends);
        assert!(caller.join().unwrap() > 10, "hardly anybody called");
    });
}

#[test]
fn invalid_shared_address_is_refused() {
    let scratch = Scratch::new("invalid_shared_address_is_refused");
    let secret = scratch.at("secret");
    std::fs::write(&secret, "what only elements know").unwrap();
    let refused = |listener: &str, code: u8, words: &str| {
        let mut command = gateway(&scratch, "key");
        command.args([
            "--peer",
            "127.0.0.1:1",
            "--socks",
            listener,
            "--cluster-key",
        ]);
        command.arg(&secret).args(["--cluster", "127.0.0.1:4811"]);
        command.args(["--cluster-listen", "127.0.0.1:4811"]);
        command.args(["--cluster-address", "10.9.0.100"]);
        Running::start(command).finish().assert_failed(code, words);
    };
    for listener in ["127.0.0.1:0", "10.9.0.100:1080"] {
        refused(
            listener,
            1,
            "a listener must listen on all addresses; write it as --socks 0.0.0.0:1080",
        );
    }
    refused("0.0.0.0:0", 1, "127.0.0.1 is at lo, which has no network");
}

/// A program whose word is echoed.
fn call(programs: &Namespace) -> TcpStream {
    let connect = || TcpStream::connect_timeout(&SHARED.into(), SOON);
    let mut stream = programs.within(connect).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_nodelay(true).unwrap();
    assert!(speaks(&mut stream), "nobody speaks");
    stream
}

/// A program that sends a word at intervals and reads the echo.
struct Talk {
    is_over: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Talk {
    fn begin(mut stream: TcpStream) -> Self {
        let (is_over, stop) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (ends, stops) = (Arc::clone(&is_over), Arc::clone(&stop));
        thread::spawn(move || {
            while !stops.load(Relaxed) && speaks(&mut stream) {
                pause(Duration::from_millis(50));
            }
            ends.store(true, Relaxed);
        });
        Self { is_over, stop }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Checks that this many sessions were reset and all others continue.
fn lose(talks: &mut Vec<Talk>, count: u64) {
    let over = |talks: &[Talk]| {
        talks
            .iter()
            .filter(|talk| talk.is_over.load(Relaxed))
            .count()
    };
    becomes_true("all are cut off", || over(talks) as u64 >= count);
    pause(Duration::from_secs(1));
    assert_eq!(over(talks) as u64, count, "of {} talks", talks.len());
    talks.retain(|talk| !talk.is_over.load(Relaxed));
}

/// Reads this much of the data that [`Stage::fill`] sent.
fn drink(stream: &mut TcpStream, len: usize) {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
}

/// Sends an ICMP message to the address that a packet was too long (RFC 792), as a router would.
fn complain(programs: &Namespace) {
    let mut message = [0; 36];
    (message[0], message[1]) = (3, 4);
    // the IP header of that packet; the checksum complements the sum to all ones
    message[8] = 0x45;
    let sum = 0x0304_u16 + 0x4500;
    message[2..4].copy_from_slice(&(!sum).to_be_bytes());
    let say = || {
        let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))?;
        sendto(
            &socket,
            &message,
            SendFlags::empty(),
            &SocketAddrV4::new(SHARED.0, 0),
        )?;
        Ok(())
    };
    programs.within(say).unwrap();
}

/// Returns the number of such messages that the kernel of a host has received.
fn complaints(host: &Namespace) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
    let text = host.within(read).unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("IcmpMsg:"));
    let mut words = || lines.next().unwrap_or_default().split_whitespace();
    let mut counts = words().zip(words());
    counts
        .find(|(name, _)| *name == "InType3")
        .map_or(0, |(_, count)| count.parse().unwrap())
}

/// A host with address 10.9.0.`nth`.
fn host(switch: &Namespace, nth: u8) -> Namespace {
    let host = Namespace::create().unwrap();
    let far = host.path();
    let far = far.display();
    run(
        switch,
        &format!("ip link add port{nth} type veth peer name eth0 netns {far}"),
    );
    run(switch, &format!("ip link set port{nth} master switch up"));
    run(&host, &format!("ip addr add 10.9.0.{nth}/24 dev eth0"));
    run(&host, "ip link set lo up");
    run(&host, "ip link set eth0 up");
    host
}

/// Sets what a host's kernel does with TCP.
fn set(host: &Namespace, name: &str, value: &str) {
    let path = format!("/proc/sys/net/ipv4/{name}");
    host.within(|| std::fs::write(path, value)).unwrap();
}

/// Options of all gateways.
fn gateway(scratch: &Scratch, key: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(["gateway", "--rate", "100Mb/s", "--key"])
        .arg(scratch.at(key));
    command.env("XDG_CONFIG_HOME", scratch.at("config"));
    command.env("XDG_STATE_HOME", scratch.at("state"));
    command.arg("--status-socket").arg(board(key));
    command
}

fn start(host: &Namespace, command: Command) -> Running {
    host.within(|| Ok(Running::start(command))).unwrap()
}

/// Echoes all data to all clients.
fn echo(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        thread::spawn(move || {
            let (mut from, mut to) = (&stream, &stream);
            io::copy(&mut from, &mut to).ok();
        });
    }
}

/// Returns true if a word is echoed.
fn speaks(stream: &mut TcpStream) -> bool {
    let mut word = [0; 4];
    stream.write_all(b"word").is_ok() && stream.read_exact(&mut word).is_ok() && word == *b"word"
}

/// Returns the number of sessions of each element.
fn shares() -> Vec<u64> {
    let sessions = |nth| shown(&format!("host{nth}"))["sessions"].as_u64().unwrap();
    (1..=COUNT).map(sessions).collect()
}

/// Runs a tool in a host and returns its output.
fn run(host: &Namespace, words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut command = Command::new(words[0]);
    let output = host.within(|| command.args(&words[1..]).output()).unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const COUNT: u8 = 3;
const CALLS: usize = 60;
/// Number of bytes that a program sends before it reads.
const LARGE: usize = 2 << 20;
/// Number of these bytes that stay in socket buffers.
const LATE: usize = 100_000;
const SHARED: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 9, 0, 100), 8080);
/// Longer than the others need to notice that an element is dead.
const SOON: Duration = Duration::from_secs(15);
