//! Hosts of the lab: unnamed network namespaces with interfaces.
//!
//! `build` creates a `Host` for each name of a `Description`. Each host has the TUN device `wan`,
//! whose packets the emulator carries. Veth pairs join hosts directly, without emulation:
//!
//! ```text
//! host a: wan (TUN) -> emulator -> wan: host b       10.77.0.0/16
//! host a: veth0 <----- kernel -----> veth0: host b   a route for each peer
//! ```
//!
//! The kernel removes all of it when the handles of the namespaces are closed. IPv6 is off.

use std::fs;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use lighthaul_io::host::namespace::Namespace;
use lighthaul_io::net::tun::Tun;

use crate::description::{Description, LinkKind, address};
use crate::error::{Error, Result};

/// Host of the lab.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) tun: Arc<Tun>,
}

/// Creates all hosts, with their interfaces up.
pub(crate) fn build(description: &Description) -> Result<Vec<Host>> {
    let host = |number| Host::build(description, number);
    let hosts: Vec<Host> = (0..description.host_count)
        .map(host)
        .collect::<Result<_>>()?;
    for (number, link) in description.links.iter().enumerate() {
        if let LinkKind::Veth { segment } = link.kind {
            let ends = link.between.map(|end| &hosts[end].namespace);
            join(number, link.between, ends, link.mtu)
                .and_then(|()| if segment { cut(number, ends) } else { Ok(()) })
                .map_err(Error::world("link two hosts by a veth pair"))?;
        }
    }
    Ok(hosts)
}

impl Host {
    fn build(description: &Description, number: usize) -> Result<Self> {
        let name = &description.names[number];
        let what = || format!("create the host {name}");
        let namespace = Namespace::create().map_err(Error::world(what()))?;
        let own = description
            .links
            .iter()
            .filter(|link| matches!(link.kind, LinkKind::Wan(_)) && link.between.contains(&number));
        let mtu = own.map(|link| link.mtu).max().unwrap_or(1500);
        let tun = namespace
            .within(|| furnish(number, mtu))
            .map_err(Error::world(what()))?;
        Ok(Self {
            namespace,
            tun: Arc::new(tun),
        })
    }

    /// Returns the super-segments that the host's kernel could not queue for the emulator.
    pub(crate) fn dropped(&self) -> u64 {
        let text = self
            .namespace
            .within(|| fs::read_to_string("/proc/thread-self/net/dev"));
        let text = text.unwrap_or_default();
        let row = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("wan:"));
        // Eight columns of receive, then bytes, packets, errors and drops of transmit.
        let column = row.and_then(|row| row.split_whitespace().nth(11));
        column.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// Configures the namespace of the calling thread.
fn furnish(number: usize, mtu: u32) -> io::Result<Tun> {
    // IPv6 neighbor discovery would appear in the counters. A kernel without IPv6 lacks these files.
    fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").ok();
    fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").ok();
    // Buffers of a tuned data transfer host, so that TCP can fill a long path.
    fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 268435456")?;
    fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 65536 268435456")?;
    let tun = Tun::create("wan")?;
    let own = address(number);
    ip(&format!(
        "link set lo up\n\
         link set wan mtu {mtu} txqueuelen {QUEUE_PACKETS}\n\
         link set wan up\n\
         address add {own}/32 dev wan\n\
         route add 10.77.0.0/16 dev wan src {own}\n"
    ))?;
    Ok(tun)
}

/// Links two hosts by a veth pair.
fn join(number: usize, hosts: [usize; 2], ends: [&Namespace; 2], mtu: u32) -> io::Result<()> {
    let name = format!("veth{number}");
    let far = ends[1].path();
    ends[0].within(|| {
        ip(&format!(
            "link add {name} type veth peer name {name} netns {}\n",
            far.display()
        ))
    })?;
    for (end, way) in ends.iter().zip([[0, 1], [1, 0]]) {
        let [own, other] = way.map(|i| address(hosts[i]));
        end.within(|| {
            ip(&format!(
                "link set {name} mtu {mtu} up\n\
                 address add {own}/32 dev {name}\n\
                 route add {other}/32 dev {name} src {own}\n"
            ))
        })?;
    }
    Ok(())
}

/// Configures a veth pair to segment trains before they cross and to coalesce them at the receiver,
/// like real network cards.
fn cut(number: usize, ends: [&Namespace; 2]) -> io::Result<()> {
    let name = format!("veth{number}");
    let features = [
        "tx-udp-segmentation",
        "off",
        "tso",
        "off",
        "gro",
        "on",
        "rx-udp-gro-forwarding",
        "on",
    ];
    for end in ends {
        end.within(|| run(tool("ethtool").arg("-K").arg(&name).args(features), ""))?;
    }
    Ok(())
}

/// Runs iproute2 `commands`, one per line.
fn ip(commands: &str) -> io::Result<()> {
    run(tool("ip").args(["-batch", "-"]), commands)
}

fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

fn run(command: &mut Command, input: &str) -> io::Result<()> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let name = command.get_program().to_string_lossy();
    let words = String::from_utf8_lossy(&output.stderr);
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(io::Error::other(format!("{name}: {words}")))
}

/// Queue length for super-segments to the emulator, more than ever needed.
const QUEUE_PACKETS: u32 = 10_000;
