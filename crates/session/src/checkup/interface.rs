//! Facts of the network interface that carries a session, for a judgment of its settings.
//!
//! The kernel describes hardware in `/sys` and `/proc`; the driver tells rings and offloads. Above a bond, a bridge or
//! a VLAN, the facts are those of the first hardware below. An interface without hardware has only a name.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lighthaul_io::net::ethtool::{self, Offloads, Ring};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use serde::{Deserialize, Deserializer, Serialize};

/// Facts of the interface that carries a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceFacts {
    /// Name of the interface, safe in a command of a shell; `?` if it is not.
    #[serde(deserialize_with = "read_name")]
    pub name: String,
    /// Facts of its hardware, or none if it is virtual.
    pub hardware: Option<HardwareFacts>,
}

/// Facts of the hardware of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareFacts {
    /// Rate of the link in Mb/s, or none if the driver does not know it.
    pub mbps: Option<u32>,
    /// Packets that the receive ring takes now, and packets that the hardware could keep.
    pub ring: Option<(u32, u32)>,
    /// True if the kernel coalesces received packets (GRO); none if the driver does not tell.
    pub coalesces: Option<bool>,
    /// True if batches stay whole until the driver has them (GSO).
    pub segments: Option<bool>,
    /// True if the hardware computes checksums of sent packets.
    pub checksums: Option<bool>,
    /// Receive queues.
    pub queues: u16,
    /// True if UDP flows between two hosts are spread over the queues by their ports.
    pub spreads_udp: Option<bool>,
    /// Interrupts of the hardware.
    pub interrupts: u16,
    /// CPUs that handle these interrupts.
    pub interrupt_cpus: u16,
    /// Place in a host with several NUMA nodes.
    pub numa: Option<NumaPlacement>,
}

/// Placement of an interface and this program on NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaPlacement {
    /// Node of the hardware.
    pub node: u16,
    /// Interrupts that CPUs of other nodes handle.
    pub interrupts_elsewhere: u16,
    /// True if this program may run on CPUs of other nodes.
    pub runs_elsewhere: bool,
}

impl InterfaceFacts {
    /// Returns the facts of the interface of this host that has `address`.
    pub fn of(address: SocketAddr) -> Option<Self> {
        let name = interface_with(address)?;
        let mut facts = Host::new(Path::new("/")).facts(&name);
        if let Some(hardware) = &mut facts.hardware {
            ask_driver(&facts.name, address.is_ipv6(), hardware);
        }
        Some(facts)
    }
}

/// Decodes the name of an interface of a peer.
fn read_name<'a, D: Deserializer<'a>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    Ok(plain_name(&name))
}

/// Returns `name`, or `?` if a shell would take it for more than a word, or no interface could have it.
fn plain_name(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        name.to_owned()
    } else {
        "?".to_owned()
    }
}

/// Returns the name of the interface with this address.
fn interface_with(address: SocketAddr) -> Option<String> {
    let ip = address.ip().to_canonical();
    let matches = |found: &SockaddrStorage| {
        let found = found
            .as_sockaddr_in()
            .map(|v4| v4.ip().into())
            .or_else(|| found.as_sockaddr_in6().map(|v6| v6.ip().into()));
        found == Some(ip)
    };
    let mut all = getifaddrs().ok()?;
    let one = all.find(|one| one.address.as_ref().is_some_and(matches))?;
    // further addresses of an interface can have a label of their own, as in eth0:1
    Some(one.interface_name.split(':').next()?.to_owned())
}

/// Adds what only the driver knows.
fn ask_driver(name: &str, is_ipv6: bool, hardware: &mut HardwareFacts) {
    if let Ok(Ring { now, max }) = ethtool::receive_ring(name) {
        hardware.ring = Some((now, max));
    }
    if let Ok(offloads) = ethtool::offloads(name) {
        let Offloads {
            coalesces,
            segments,
            checksums,
        } = offloads;
        hardware.coalesces = Some(coalesces);
        hardware.segments = Some(segments);
        hardware.checksums = Some(checksums);
    }
    hardware.spreads_udp = ethtool::hashes_udp_ports(name, is_ipv6).ok();
}

/// Files in which a kernel describes its host, below a root.
struct Host<'a> {
    root: &'a Path,
}

impl<'a> Host<'a> {
    const fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// Returns the facts of `interface`, or of the first hardware below it.
    fn facts(&self, interface: &str) -> InterfaceFacts {
        let below = self.hardware_below(interface, LEVELS_MAX);
        InterfaceFacts {
            hardware: below.as_deref().map(|name| self.hardware(name)),
            name: plain_name(below.as_deref().unwrap_or(interface)),
        }
    }

    /// Returns the first interface with hardware at or below `interface`.
    fn hardware_below(&self, interface: &str, levels: usize) -> Option<String> {
        let folder = self.folder(interface);
        if folder.join("device").exists() {
            return Some(interface.to_owned());
        }
        let levels = levels.checked_sub(1)?;
        names(&folder).into_iter().find_map(|name| {
            let lower = name.strip_prefix("lower_")?;
            self.hardware_below(lower, levels)
        })
    }

    fn hardware(&self, interface: &str) -> HardwareFacts {
        let folder = self.folder(interface);
        let queues = names(&folder.join("queues"));
        let queues = queues.iter().filter(|name| name.starts_with("rx-")).count();
        let interrupts = self.interrupts(&folder);
        let cpus: BTreeSet<u16> = interrupts.iter().flatten().copied().collect();
        HardwareFacts {
            mbps: number(&folder.join("speed")).filter(|mbps| (1..SPEED_UNKNOWN).contains(mbps)),
            queues: short(queues),
            interrupts: short(interrupts.len()),
            interrupt_cpus: short(cpus.len()),
            numa: self.placement(&folder, &interrupts),
            ..HardwareFacts::default()
        }
    }

    /// Returns the CPUs of each interrupt of the hardware.
    fn interrupts(&self, folder: &Path) -> Vec<BTreeSet<u16>> {
        let device = folder.join("device");
        // a virtual device on the PCI bus has the interrupts of its parent
        let mut numbers = names(&device.join("msi_irqs"));
        if numbers.is_empty() {
            numbers = names(&device.join("../msi_irqs"));
        }
        let irqs = self.root.join("proc/irq");
        let cpus = |irq: String| {
            let list = text(&irqs.join(&irq).join("effective_affinity_list"))
                .or_else(|| text(&irqs.join(&irq).join("smp_affinity_list")))?;
            Some(cpu_list(&list)).filter(|cpus| !cpus.is_empty())
        };
        numbers.into_iter().filter_map(cpus).collect()
    }

    /// Returns the placement on a host with several NUMA nodes.
    fn placement(&self, folder: &Path, interrupts: &[BTreeSet<u16>]) -> Option<NumaPlacement> {
        let node: u16 = number(&folder.join("device/numa_node"))?;
        let nodes = self.root.join("sys/devices/system/node");
        let is_node = |name: &&String| {
            let number = name.strip_prefix("node");
            number.is_some_and(|number| number.parse::<u16>().is_ok())
        };
        if names(&nodes).iter().filter(is_node).count() < 2 {
            return None;
        }
        let near = cpu_list(&text(&nodes.join(format!("node{node}/cpulist")))?);
        let elsewhere = |cpus: &&BTreeSet<u16>| !cpus.is_subset(&near);
        let status = text(&self.root.join("proc/self/status"))?;
        let allowed = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(NumaPlacement {
            node,
            interrupts_elsewhere: short(interrupts.iter().filter(elsewhere).count()),
            runs_elsewhere: !cpu_list(allowed).is_subset(&near),
        })
    }

    fn folder(&self, interface: &str) -> PathBuf {
        self.root.join("sys/class/net").join(interface)
    }
}

/// Parses a list of CPUs like `0-3,8,10-11`. A damaged part ends it.
fn cpu_list(list: &str) -> BTreeSet<u16> {
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse()) else {
            break;
        };
        cpus.extend(first..=last);
    }
    cpus
}

/// Returns the names of the entries of a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.trim().parse().ok()
}

fn short(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Maximum number of octets of the name of an interface, `IFNAMSIZ` without the zero at its end.
const NAME_MAX: usize = 15;
/// Maximum number of interfaces above hardware: a bridge above a VLAN above a bond.
const LEVELS_MAX: usize = 4;
/// Rate that some drivers report while they do not know it.
const SPEED_UNKNOWN: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// A host described by files, as a kernel with this hardware describes it.
    struct Described(PathBuf);

    impl Described {
        fn new(name: &str) -> Self {
            let name = format!("lighthaul-interface-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(name);
            fs::remove_dir_all(&root).ok();
            Self(root)
        }

        fn with(self, path: &str, content: &str) -> Self {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
            self
        }

        fn facts(&self, interface: &str) -> InterfaceFacts {
            Host::new(&self.0).facts(interface)
        }
    }

    impl Drop for Described {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn two_nodes(name: &str) -> Described {
        Described::new(name)
            .with("sys/class/net/eth0/speed", "100000\n")
            .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "0")
            .with("sys/class/net/eth0/queues/rx-1/rps_cpus", "0")
            .with("sys/class/net/eth0/queues/tx-0/xps_cpus", "0")
            .with("sys/class/net/eth0/device/numa_node", "1\n")
            .with("sys/class/net/eth0/device/msi_irqs/40", "msix\n")
            .with("sys/class/net/eth0/device/msi_irqs/41", "msix\n")
            .with("proc/irq/40/effective_affinity_list", "4\n")
            .with("proc/irq/41/smp_affinity_list", "0-1\n")
            .with("sys/devices/system/node/node0/cpulist", "0-3\n")
            .with("sys/devices/system/node/node1/cpulist", "4-5,7\n")
            .with("sys/devices/system/node/possible", "0-1\n")
            .with(
                "proc/self/status",
                "Name:\tx\nCpus_allowed_list:\t4-5\nThreads:\t1\n",
            )
    }

    #[test]
    fn hardware_is_described_by_the_files_of_the_kernel() {
        let facts = two_nodes("files").facts("eth0").hardware.unwrap();
        assert_eq!(facts.mbps, Some(100_000));
        assert_eq!(
            (facts.queues, facts.interrupts, facts.interrupt_cpus),
            (2, 2, 3)
        );
        let placement = NumaPlacement {
            node: 1,
            interrupts_elsewhere: 1,
            runs_elsewhere: false,
        };
        assert_eq!(facts.numa, Some(placement));
    }

    #[test]
    fn program_that_may_run_on_another_node_is_found() {
        let host = two_nodes("elsewhere").with("proc/self/status", "Cpus_allowed_list:\t0-5,7\n");
        let placement = host.facts("eth0").hardware.unwrap().numa.unwrap();
        assert!(placement.runs_elsewhere);
    }

    #[test]
    fn one_node_or_an_unknown_node_needs_no_placement() {
        let host = two_nodes("one-node").with("sys/class/net/eth0/device/numa_node", "-1\n");
        assert_eq!(host.facts("eth0").hardware.unwrap().numa, None);
        fs::remove_dir_all(host.0.join("sys/devices/system/node/node0")).unwrap();
        let host = host.with("sys/class/net/eth0/device/numa_node", "1\n");
        assert_eq!(host.facts("eth0").hardware.unwrap().numa, None);
    }

    #[test]
    fn hardware_below_a_bridge_and_a_bond_is_found() {
        let host = two_nodes("below")
            .with("sys/class/net/br0/lower_bond0", "")
            .with("sys/class/net/bond0/lower_eth0", "");
        assert_eq!(host.facts("br0").name, "eth0");
        // a circle of interfaces ends, too
        let circle = Described::new("circle")
            .with("sys/class/net/a/lower_b", "")
            .with("sys/class/net/b/lower_a", "");
        let found = circle.facts("a");
        assert_eq!((found.name.as_str(), found.hardware), ("a", None));
    }

    #[test]
    fn virtual_device_on_a_bus_has_the_interrupts_of_its_parent() {
        let host = Described::new("parent")
            .with("sys/class/net/eth0/device/modalias", "virtio:d00000001")
            .with("sys/class/net/eth0/msi_irqs/24", "msix\n")
            .with("proc/irq/24/effective_affinity_list", "1\n")
            .with("sys/class/net/eth0/speed", "-1\n");
        let facts = host.facts("eth0").hardware.unwrap();
        assert_eq!((facts.interrupts, facts.mbps), (1, None));
    }

    #[test]
    fn damaged_lists_of_cpus_end_early() {
        assert_eq!(cpu_list("0-2,5\n"), BTreeSet::from([0, 1, 2, 5]));
        assert_eq!(cpu_list("3,x,4"), BTreeSet::from([3]));
        assert!(cpu_list("").is_empty());
        assert!(cpu_list("5-2").is_empty());
    }

    #[test]
    fn name_that_a_shell_would_run_is_replaced() {
        for name in ["eth0", "enp3s0f1", "bond0.100", "br-lan"] {
            assert_eq!(plain_name(name), name);
        }
        for name in [
            "",
            "eth0; reboot",
            "`id`",
            "$HOME",
            "a-name-that-is-too-long",
            "e\u{1b}",
        ] {
            let facts = InterfaceFacts {
                name: name.to_owned(),
                hardware: None,
            };
            let octets = postcard::to_allocvec(&facts).unwrap();
            let decoded: InterfaceFacts = postcard::from_bytes(&octets).unwrap();
            assert_eq!(decoded.name, "?", "{name:?}");
        }
    }

    #[test]
    fn loopback_is_virtual() {
        let facts = InterfaceFacts::of("127.0.0.1:1".parse().unwrap()).unwrap();
        assert_eq!((facts.name.as_str(), facts.hardware), ("lo", None));
        let mapped = "[::ffff:127.0.0.1]:1".parse().unwrap();
        assert_eq!(InterfaceFacts::of(mapped).unwrap().name, "lo");
        assert_eq!(
            InterfaceFacts::of("192.0.2.255:1".parse().unwrap()),
            None,
            "no host has this address"
        );
    }
}
