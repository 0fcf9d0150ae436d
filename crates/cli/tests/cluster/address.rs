//! Programs that find three gateways at one address, in a network of namespaces, while gateways die, return and are stopped.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use lighthaul_io::namespace::{Namespace, check};

use crate::running::Running;
use crate::scratch::Scratch;
use crate::{PROGRAM, board, say, shown};

/// Hosts at one switch: programs, elements, and the gateway near the targets with the one target there is.
struct Stage {
    scratch: Scratch,
    programs: Namespace,
    elements: Vec<Namespace>,
    /// What the elements are told of the other gateway.
    peer: [String; 2],
    /// Where their doors lead.
    target: SocketAddr,
    _switch: Namespace,
    _egress: Running,
}

impl Stage {
    /// Sets it up, or says by name that the test is skipped.
    fn start(test: &str) -> Option<Self> {
        let nft = Command::new("nft").arg("--version").output();
        if let Err(why) = check().and(nft) {
            let line = format!("skipped: {test}: no namespaces or no nft: {why}\n");
            io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        }
        let scratch = Scratch::new(test);
        let switch = Namespace::create().unwrap();
        run(&switch, "ip link add switch type bridge");
        run(&switch, "ip link set switch up");
        let programs = host(&switch, 50);
        let elements: Vec<Namespace> = (1..=COUNT).map(|nth| host(&switch, nth)).collect();
        let near_targets = host(&switch, 60);
        let target = near_targets.within(|| TcpListener::bind("127.0.0.1:0"));
        let target = target.unwrap();
        let place = target.local_addr().unwrap();
        thread::spawn(move || echo(&target));
        let path = |name: &str| scratch.at(name).to_str().unwrap().to_owned();
        std::fs::write(scratch.at("secret"), "what only elements know").unwrap();
        let pin = say(&["key", "--key", &path("egress")]);
        for nth in 1..=COUNT {
            let key = say(&["key", "--key", &path(&format!("key{nth}"))]);
            let allow = ["allow", &key, "element", "--gateway", "--allowed"];
            say(&[&allow[..], &[&path("allowed")]].concat());
        }
        let mut command = gateway(&scratch, "egress");
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
        let mut command = gateway(&self.scratch, &format!("key{nth}"));
        let [peer, pin] = &self.peer;
        command.args(["--peer", peer, "--pin", pin, "--forward"]);
        command.arg(format!("0.0.0.0:8080={}", self.target));
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

    /// Programs that each get their word back, as many as there are; the first that is refused fails.
    fn call(&self, count: usize) -> Vec<TcpStream> {
        let call = |_| {
            let connect = || TcpStream::connect_timeout(&SHARED.into(), SOON);
            let mut stream = self.programs.within(connect).unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            stream.set_nodelay(true).unwrap();
            assert!(speaks(&mut stream), "nobody speaks");
            stream
        };
        (0..count).map(call).collect()
    }

    /// What is left of ours at element `nth`.
    fn left(&self, nth: u8) -> String {
        let host = &self.elements[usize::from(nth) - 1];
        let (rules, addresses) = (run(host, "nft list ruleset"), run(host, "ip addr show"));
        let is_ours = |line: &&str| line.contains("lighthaul") || line.contains("10.9.0.100");
        let told = [rules, addresses].concat();
        told.lines().filter(is_ours).collect()
    }
}

#[test]
fn programs_find_whoever_lives_at_one_address_and_stay_where_they_are() {
    let name = "programs_find_whoever_lives_at_one_address_and_stay_where_they_are";
    let Some(stage) = Stage::start(name) else {
        return;
    };
    let mut elements: Vec<Running> = (1..=COUNT).map(|nth| stage.element(nth)).collect();
    elements[0].says("this element answers for 10.9.0.100, whose connections go to 3 of 3");
    let mut all = stage.call(CALLS);
    let sessions = shares();
    assert_eq!(sessions.iter().sum::<u64>(), CALLS as u64);
    assert!(
        sessions.iter().all(|count| *count > CALLS as u64 / 6),
        "{sessions:?} of {CALLS}"
    );

    // the one that answers dies; what others carry goes on, and so do others
    elements[0].kill();
    elements[1].says("this element answers for 10.9.0.100, whose connections go to 2 of 3");
    let on = all
        .iter_mut()
        .filter_map(|stream| speaks(stream).then_some(()));
    assert_eq!(on.count() as u64, CALLS as u64 - sessions[0]);
    all.retain_mut(speaks);
    all.extend(stage.call(CALLS));

    // it returns; new connections come to it, and all others stay where they are
    elements[0] = stage.element(1);
    elements[0].says("whose connections go to 3 of 3");
    let mut new = stage.call(CALLS);
    assert!(shares()[0] > CALLS as u64 / 6, "{:?}", shares());
    assert!(all.iter_mut().all(speaks), "a connection was lost");
    all.append(&mut new);

    // one is to be stopped: it lets nobody in any more, nobody is refused, and what it carries goes on
    elements[1].signal("TERM");
    elements[1].says("stopping, with");
    let before = shares()[1];
    all.extend(stage.call(CALLS));
    assert_eq!(shares()[1], before, "it let somebody in");
    assert!(all.iter_mut().all(speaks), "a connection was lost");
    let told = stage.left(2);
    assert!(told.contains("table ip lighthaul_address"), "{told}");
    drop(all);
    let stopped = elements.remove(1).finish().assert_succeeded();
    assert!(stopped.said("no session is left"), "{stopped:?}");
    assert_eq!(stage.left(2), "", "something of ours is left");
}

#[test]
fn a_shared_address_that_cannot_work_is_refused() {
    let scratch = Scratch::new("a_shared_address_that_cannot_work_is_refused");
    let secret = scratch.at("secret");
    std::fs::write(&secret, "what only elements know").unwrap();
    let refused = |door: &str, code: u8, words: &str| {
        let mut command = gateway(&scratch, "key");
        command.args(["--peer", "127.0.0.1:1", "--socks", door, "--cluster-key"]);
        command.arg(&secret).args(["--cluster", "127.0.0.1:4811"]);
        command.args(["--cluster-listen", "127.0.0.1:4811"]);
        command.args(["--cluster-address", "10.9.0.100"]);
        Running::start(command).finish().assert_failed(code, words);
    };
    for door in ["127.0.0.1:0", "10.9.0.100:1080"] {
        refused(
            door,
            1,
            "through doors that listen everywhere, as --socks 0.0.0.0:1080",
        );
    }
    refused("0.0.0.0:0", 10, "127.0.0.1 is at lo, which is no network");
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

/// What all gateways have in common.
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

/// Gives back what comes, to everybody at once.
fn echo(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        thread::spawn(move || {
            let (mut from, mut to) = (&stream, &stream);
            io::copy(&mut from, &mut to).ok();
        });
    }
}

/// Whether a word comes back.
fn speaks(stream: &mut TcpStream) -> bool {
    let mut word = [0; 4];
    stream.write_all(b"word").is_ok() && stream.read_exact(&mut word).is_ok() && word == *b"word"
}

/// How many sessions each element carries.
fn shares() -> Vec<u64> {
    let sessions = |nth| shown(&format!("key{nth}"))["sessions"].as_u64().unwrap();
    (1..=COUNT).map(sessions).collect()
}

/// Runs a tool in a host and returns what it says.
fn run(host: &Namespace, words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut command = Command::new(words[0]);
    let output = host.within(|| command.args(&words[1..]).output()).unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const COUNT: u8 = 3;
const CALLS: usize = 60;
const SHARED: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 9, 0, 100), 8080);
/// More than the others need to notice that one is dead.
const SOON: Duration = Duration::from_secs(15);
