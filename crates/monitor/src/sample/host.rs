//! All counters of this host at one time.
//!
//! [`Sampler::sample`] reads a dozen small files of `/proc`, which takes less than a millisecond on
//! most hosts. A file that this kernel lacks, or that the process may not read, leaves its part of
//! the sample empty. Every read is bounded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lighthaul_base::Instant;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::durable;

use super::counter::ITEMS_MAX;
use super::cpu::{self, CpuTimes};
use super::disk::{self, DiskCounters};
use super::interface::{self, InterfaceCounters};
use super::memory::{self, Memory};
use super::pressure::{self, StallTimes};
use super::schedule::{self, TaskTimes};
use super::udp::{self, UdpCounters};

/// Counters of this host at one time.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Time of day in nanoseconds since 1970 (UTC).
    pub unix_nanos: u64,
    /// Time on the clock of the sampler.
    pub at: Instant,
    /// Times of the processors, by number.
    pub cores: BTreeMap<u32, CpuTimes>,
    /// Stalls for a processor, for input and output, and for memory.
    pub pressure: PressureCounters,
    /// Times of the tasks of this process, by number.
    pub tasks: BTreeMap<u32, TaskTimes>,
    /// Memory.
    pub memory: Option<Memory>,
    /// Whole disks that have transferred data, by name.
    pub disks: BTreeMap<String, DiskCounters>,
    /// Network interfaces, by name.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    /// Lost UDP datagrams over IPv4.
    pub udp: Option<UdpCounters>,
    /// Lost UDP datagrams over IPv6.
    pub udp6: Option<UdpCounters>,
    /// Packets that each processor dropped on arrival.
    pub softnet_drops: Vec<u64>,
}

/// Stalls for each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureCounters {
    /// Stalls for a processor.
    pub cpu: Option<StallTimes>,
    /// Stalls for input and output.
    pub io: Option<StallTimes>,
    /// Stalls for memory.
    pub memory: Option<StallTimes>,
}

/// Reader of the files of the kernel.
#[derive(Clone, Debug)]
pub struct Sampler {
    clock: Clock,
    proc: PathBuf,
    sys: PathBuf,
}

impl Sampler {
    /// Returns a sampler of this host, with times of `clock`.
    pub fn new(clock: Clock) -> Self {
        Self::below(clock, Path::new("/"))
    }

    /// Returns a sampler of the directories `proc` and `sys` in `root`.
    pub fn below(clock: Clock, root: &Path) -> Self {
        Self {
            clock,
            proc: root.join("proc"),
            sys: root.join("sys"),
        }
    }

    /// Reads all counters.
    pub fn sample(&self) -> Sample {
        Sample {
            unix_nanos: unix_nanos(),
            at: self.clock.now(),
            cores: cpu::parse(&self.text("stat")),
            pressure: PressureCounters {
                cpu: pressure::parse(&self.text("pressure/cpu")),
                io: pressure::parse(&self.text("pressure/io")),
                memory: pressure::parse(&self.text("pressure/memory")),
            },
            tasks: self.tasks(),
            memory: memory::parse(&self.text("meminfo")),
            disks: self.disks(),
            interfaces: interface::parse(&self.text("net/dev")),
            udp: udp::parse(&self.text("net/snmp")),
            udp6: udp::parse_v6(&self.text("net/snmp6")),
            softnet_drops: udp::parse_softnet(&self.text("net/softnet_stat")),
        }
    }

    /// Returns the text of a file, or an empty text if the file cannot be read.
    fn text(&self, name: &str) -> String {
        text(&self.proc.join(name))
    }

    fn tasks(&self) -> BTreeMap<u32, TaskTimes> {
        let folder = self.proc.join("self/task");
        let names = names(&folder).into_iter();
        let tasks = names.filter_map(|name| {
            let times = schedule::parse(&text(&folder.join(&name).join("schedstat")))?;
            Some((name.parse().ok()?, times))
        });
        tasks.collect()
    }

    /// Returns whole disks that have transferred data. A host has many loop and RAM disks that never do.
    fn disks(&self) -> BTreeMap<String, DiskCounters> {
        let mut disks = disk::parse(&self.text("diskstats"));
        let whole = names(&self.sys.join("block"));
        disks.retain(|name, counters| {
            // a slash in a name is an exclamation mark in /sys
            let is_whole = whole.is_empty() || whole.contains(&name.replace('/', "!"));
            is_whole && *counters != DiskCounters::default()
        });
        disks
    }
}

fn text(path: &Path) -> String {
    let octets = durable::read(path, FILE_MAX).ok().flatten();
    String::from_utf8_lossy(&octets.unwrap_or_default()).into_owned()
}

/// Returns the names in a directory, or no names if the directory cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.take(ITEMS_MAX).collect()
}

/// Bytes of a file that are read. `/proc/stat` of a large host has some hundred thousand.
const FILE_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_processors_memory_and_a_loopback_interface() {
        let sampler = Sampler::new(Clock::start());
        let (first, second) = (sampler.sample(), sampler.sample());
        assert!(!first.cores.is_empty() && !first.tasks.is_empty());
        assert!(first.memory.is_some_and(|memory| memory.total_bytes > 0));
        assert!(first.interfaces.contains_key("lo"));
        assert!(first.udp.is_some() && !first.softnet_drops.is_empty());
        assert!(second.at >= first.at && second.unix_nanos > 0);
    }

    #[test]
    fn missing_files_give_an_empty_sample() {
        let sampler = Sampler::below(Clock::start(), Path::new("/no/such/folder"));
        let sample = sampler.sample();
        assert!(sample.cores.is_empty() && sample.disks.is_empty() && sample.memory.is_none());
        assert_eq!(sample.pressure, PressureCounters::default());
    }

    #[test]
    fn partitions_and_idle_disks_are_left_out() {
        let name = format!("lighthaul-monitor-disks-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::create_dir_all(root.join("sys/block/vda")).unwrap();
        fs::create_dir_all(root.join("sys/block/vdb")).unwrap();
        let line = |name: &str, sectors: u32| format!("8 0 {name} 1 0 {sectors} 0 0 0 0 0 0 0 0\n");
        let text = [line("vda", 9), line("vda1", 9), line("vdb", 0)].concat();
        fs::write(root.join("proc/diskstats"), text).unwrap();
        let sample = Sampler::below(Clock::start(), &root).sample();
        assert_eq!(sample.disks.keys().collect::<Vec<_>>(), ["vda"]);
        fs::remove_dir_all(root).unwrap();
    }
}
