//! A client, a gateway's host and a server in a row.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use lighthaul_capture::kernel::error::Error;
use lighthaul_capture::rules::Rules;
use lighthaul_capture::settings::Transparent;
use lighthaul_capture::target::Target;
use lighthaul_capture::transparent::{Listeners, wanted};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::namespace::{Namespace, check};
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_testkit::{lacks, lacks_tool};

/// Three hosts of one test.
#[derive(Debug)]
pub(crate) struct Testbed {
    pub(crate) client: Namespace,
    pub(crate) gateway: Namespace,
    pub(crate) server: Namespace,
}

/// Addresses of the server.
pub(crate) const SERVER: [&str; 2] = ["203.0.113.7", "fd03::7"];

impl Testbed {
    /// Creates the hosts, or skips the test.
    pub(crate) fn start(test: &str) -> Option<Self> {
        if lacks(
            test,
            check().map_err(|why| format!("needs namespaces: {why}")),
        ) || lacks_tool(test, "nft")
        {
            return None;
        }
        let create = || Namespace::create().unwrap();
        let (client, gateway, server) = (create(), create(), create());
        let (to_client, to_server) = (client.path(), server.path());
        let far = [to_client.display(), to_server.display()];
        run(&gateway, "ip link set lo up");
        for (near, far) in ["inner", "outer"].iter().zip(far) {
            run(
                &gateway,
                &format!("ip link add {near} type veth peer name wire netns {far}"),
            );
        }
        for (host, device, number) in [
            (&gateway, "inner", "10.1.0.1/24 fd01::1/64"),
            (&gateway, "outer", "10.2.0.1/24 fd02::1/64"),
            (&client, "wire", "10.1.0.2/24 fd01::2/64"),
            (
                &server,
                "wire",
                "10.2.0.2/24 fd02::2/64 203.0.113.7/32 fd03::7/128",
            ),
        ] {
            for address in number.split(' ') {
                let nodad = if address.contains(':') { "nodad" } else { "" };
                run(host, &format!("ip addr add {address} dev {device} {nodad}"));
            }
            run(host, &format!("ip link set {device} up"));
        }
        for (host, near) in [(&client, 1), (&server, 2)] {
            run(host, &format!("ip route add default via 10.{near}.0.1"));
            run(host, &format!("ip -6 route add default via fd0{near}::1"));
        }
        run(&gateway, "ip route add 203.0.113.0/24 via 10.2.0.2");
        run(&gateway, "ip -6 route add fd03::/16 via fd02::2");
        let forward = || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")
        };
        gateway.within(forward).unwrap();
        Some(Self {
            client,
            gateway,
            server,
        })
    }

    /// Installs rules of capture at the gateway.
    pub(crate) fn capture(&self, capture: &Transparent) -> (Listeners, Rules) {
        let listeners = self.listeners();
        let rules = self.install(capture, &listeners).unwrap();
        (listeners, rules)
    }

    pub(crate) fn listeners(&self) -> Listeners {
        self.gateway
            .within(|| Ok(Listeners::open()))
            .unwrap()
            .unwrap()
    }

    #[expect(
        clippy::unwrap_in_result,
        reason = "the namespace exists for the whole test"
    )]
    pub(crate) fn install(
        &self,
        capture: &Transparent,
        listeners: &Listeners,
    ) -> Result<Rules, Error> {
        let install = || Ok(Rules::install(capture, listeners));
        self.gateway.within(install).unwrap()
    }

    pub(crate) fn remove(&self, rules: Rules) {
        self.gateway.within(|| Ok(rules.remove())).unwrap().unwrap();
    }

    /// Returns all rules and routes of the gateway's kernel that may belong to the capture.
    pub(crate) fn kernel_rules(&self) -> String {
        let rules = ["nft list ruleset", "ip -4 rule", "ip -6 rule"];
        let mut text: Vec<String> = rules
            .iter()
            .map(|words| run(&self.gateway, words))
            .collect();
        for words in ["ip -4 route show table all", "ip -6 route show table all"] {
            let routes = run(&self.gateway, words);
            let is_ours =
                |line: &&str| line.contains("proto 108") || line.starts_with("local default");
            text.extend(routes.lines().filter(is_ours).map(str::to_owned));
        }
        text.join("\n")
    }

    /// Opens a listener at the server.
    pub(crate) fn serve(&self, address: &str) -> TcpListener {
        let listener = self.server.within(|| TcpListener::bind(address)).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }
}

/// Connects from a host.
pub(crate) fn call(host: &Namespace, address: &str) -> TcpStream {
    let address: SocketAddr = address.parse().unwrap();
    let connect = || TcpStream::connect_timeout(&address, ANSWER_TIMEOUT);
    let stream = host.within(connect).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    stream
}

/// Accepts the next connection and sends a greeting. Returns the original destination.
pub(crate) fn greet(listener: &TcpListener) -> Option<Target> {
    let clock = Clock::start();
    let mut watches = [Watch::read(listener.as_raw_fd())];
    wait(clock, &mut watches, clock.now() + ANSWER_TIMEOUT).unwrap();
    let (mut stream, _) = listener.accept().expect("a connection arrives");
    let target = wanted(&stream).unwrap();
    stream.write_all(b"hello").unwrap();
    target
}

/// Reads the greeting.
pub(crate) fn receive_greeting(mut stream: TcpStream) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

/// Runs a tool in a host and returns its output.
pub(crate) fn run(host: &Namespace, words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut command = Command::new(words[0]);
    command.env("PATH", PATH).args(&words[1..]);
    let output = host.within(|| command.output()).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
