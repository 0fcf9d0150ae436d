//! Paths, losses and data of the bench, and their combinations.
//!
//! A [`Cell`] is one row of the tables: a path, a loss, the data and the programs that take part.
//! [`cells`] turns the arguments into the list of cells. Names in flags and tables come from here
//! only, so that a kept table stays comparable.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::args::Args;

/// Path of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Path {
    /// Veth pair at the kernel's speed; trains cross whole.
    Veth,
    /// Veth pair that segments trains before the receiver, like a real network card.
    VethCut,
    /// Veth pair whose receiver shares its core with other tasks.
    VethBusy,
    /// 1 Gb/s with a round-trip time of 10 ms.
    Near,
    /// 1 Gb/s with a round-trip time of 50 ms.
    Middle,
    /// 1 Gb/s with a round-trip time of 100 ms.
    Far,
    /// 5 Gb/s with a round-trip time of 115 ms.
    Fast,
    /// 1 Gb/s with a round-trip time of 100 ms, where only the port of ssh is open.
    Ssh,
}

impl Path {
    /// Returns the name in flags and tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::VethCut => "veth-cut",
            Self::VethBusy => "veth-busy",
            Self::Near => "1g-10ms",
            Self::Middle => "1g-50ms",
            Self::Far => "1g-100ms",
            Self::Fast => "5g-115ms",
            Self::Ssh => "ssh",
        }
    }

    /// Returns the rate in Gb/s and the round-trip time in milliseconds.
    const fn numbers(self) -> Option<(u64, u64)> {
        match self {
            Self::Veth | Self::VethCut | Self::VethBusy => None,
            Self::Near => Some((1, 10)),
            Self::Middle => Some((1, 50)),
            Self::Far | Self::Ssh => Some((1, 100)),
            Self::Fast => Some((5, 115)),
        }
    }

    /// Returns the round-trip time; zero for a veth pair.
    pub(crate) fn rtt(self) -> Duration {
        Duration::from_millis(self.numbers().map_or(0, |(_, rtt)| rtt))
    }

    /// Returns the number of tasks that copy memory on the receiver's core.
    pub(crate) const fn tasks(self) -> u32 {
        if matches!(self, Self::VethBusy) { 4 } else { 0 }
    }

    /// Returns the UDP payload rate of full 1500-byte packets, in bits per second.
    pub(crate) fn payload_bps(self) -> Option<f64> {
        self.numbers()
            .map(|(gbps, _)| gbps as f64 * 1e9 * 1472.0 / 1500.0)
    }

    /// Returns the flags for `lighthaul lab run`.
    pub(crate) fn flags(self, loss: Loss) -> Vec<String> {
        let Some((gbps, rtt)) = self.numbers() else {
            let cut = (self == Self::VethCut).then_some("--segment");
            return ["--kind", "veth"]
                .into_iter()
                .chain(cut)
                .map(str::to_owned)
                .collect();
        };
        let mut flags = vec![format!("--rate={gbps}Gb/s"), format!("--rtt={rtt}ms")];
        if loss != Loss::None {
            flags.push(format!("--loss={loss}"));
        }
        flags
    }
}

/// Random packet loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Loss {
    /// No loss.
    None,
    /// One packet in 100,000.
    Seldom,
    /// One packet in ten thousand.
    Rare,
    /// One packet in a thousand.
    Frequent,
    /// One packet in a hundred.
    Often,
}

impl Loss {
    /// Losses of the table.
    pub(crate) const TABLE: [Self; 3] = [Self::None, Self::Rare, Self::Often];
    /// Losses of the figure of goodput against loss.
    pub(crate) const FIGURE: [Self; 4] = [Self::Seldom, Self::Rare, Self::Frequent, Self::Often];

    /// Returns the loss in percent.
    pub(crate) const fn percent(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Seldom => 0.001,
            Self::Rare => 0.01,
            Self::Frequent => 0.1,
            Self::Often => 1.0,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::None {
            return f.write_str("0");
        }
        write!(f, "{}%", self.percent())
    }
}

/// Data to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Data {
    /// Memory to memory for a time, without files.
    Memory,
    /// One file of 2 GiB.
    File,
    /// 10,000 files of 10 KB.
    Tree,
    /// One file of 512 MiB, for programs over ssh.
    HalfGibibyte,
    /// One file of 1 GiB.
    Gibibyte,
    /// One file of 100 MB, the size of the tree.
    HundredMegabytes,
    /// One file of 700 MB, as in the RBUDP+ paper.
    SevenHundredMegabytes,
    /// One file of 8 GiB.
    EightGibibytes,
    /// One file of 10 GiB.
    TenGibibytes,
    /// One file of 20 GiB, of which an earlier run has copied about half.
    Resumed,
    /// 100,000 small files that the target already has from an earlier run.
    Again,
    /// 1,000,000 empty files.
    Empty,
}

impl Data {
    /// Returns the name in flags and tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "2GiB",
            Self::Tree => "10000x10KB",
            Self::HalfGibibyte => "512MiB",
            Self::Gibibyte => "1GiB",
            Self::HundredMegabytes => "100MB",
            Self::SevenHundredMegabytes => "700MB",
            Self::EightGibibytes => "8GiB",
            Self::TenGibibytes => "10GiB",
            Self::Resumed => "20GiB-resumed",
            Self::Again => "100000-again",
            Self::Empty => "1000000-empty",
        }
    }

    /// Returns the number of files and the bytes of each.
    pub(crate) const fn files(self) -> (u64, u64) {
        match self {
            Self::Memory => (0, 0),
            Self::File => (1, 2 << 30),
            Self::Tree => (10_000, 10_000),
            Self::HalfGibibyte => (1, 512 << 20),
            Self::Gibibyte => (1, 1 << 30),
            Self::HundredMegabytes => (1, 100_000_000),
            Self::SevenHundredMegabytes => (1, 700_000_000),
            Self::EightGibibytes => (1, 8 << 30),
            Self::TenGibibytes => (1, 10 << 30),
            Self::Resumed => (1, 20 << 30),
            Self::Again => (100_000, 100),
            Self::Empty => (1_000_000, 0),
        }
    }

    /// Returns the total of bytes.
    pub(crate) const fn bytes(self) -> u64 {
        let (count, bytes) = self.files();
        count * bytes
    }

    /// Reports whether a run takes longer than a minute on any path.
    pub(crate) const fn is_long(self) -> bool {
        matches!(self, Self::TenGibibytes | Self::Resumed)
    }

    /// Returns the time limit of a run in seconds, where `usual` is that of other data.
    pub(crate) const fn limit_s(self, usual: f64) -> f64 {
        if self.is_long() { LONG_LIMIT_S } else { usual }
    }

    /// Reports whether the data is one file.
    pub(crate) const fn is_one_file(self) -> bool {
        self.files().0 == 1
    }
}

/// Time limit of a run with 10 GiB at 1 Gb/s, in seconds.
const LONG_LIMIT_S: f64 = 300.0;

/// Cell of the table: data, path and programs.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) path: Path,
    pub(crate) loss: Loss,
    pub(crate) data: Data,
    /// Prefixes of the names of participating programs. Empty for all programs.
    pub(crate) tools: &'static [&'static str],
}

impl Cell {
    const fn new(path: Path, loss: Loss, data: Data, tools: &'static [&'static str]) -> Self {
        Self {
            path,
            loss,
            data,
            tools,
        }
    }

    /// Reports whether the program with this name participates.
    pub(crate) fn has(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|start| tool.starts_with(start))
    }
}

/// Returns the cells that `args` select.
pub(crate) fn cells(args: &Args) -> Vec<Cell> {
    let all = match args {
        Args { keep: Some(_), .. } => figure(),
        Args { quick: true, .. } => quick(),
        _ => full(),
    };
    let wants = |list: &[String], name: &str| list.is_empty() || list.iter().any(|n| n == name);
    let mut cells: Vec<Cell> = all
        .into_iter()
        .filter(|cell| {
            wants(&args.path, cell.path.name())
                && wants(&args.loss, &cell.loss.to_string())
                && wants(&args.data, cell.data.name())
        })
        .collect();
    cells.sort_by_key(|cell| (cell.path, cell.loss, cell.data));
    cells
}

fn full() -> Vec<Cell> {
    let mut cells = vec![
        Cell::new(Path::Veth, Loss::None, Data::Memory, &[]),
        Cell::new(Path::VethCut, Loss::None, Data::Memory, &[]),
    ];
    for path in [Path::Veth, Path::Near, Path::Far, Path::Fast] {
        // A veth pair loses no packets.
        let losses = if path == Path::Veth {
            &Loss::TABLE[..1]
        } else {
            &Loss::TABLE[..]
        };
        for &loss in losses {
            cells.push(Cell::new(path, loss, Data::File, &[]));
            cells.push(Cell::new(path, loss, Data::Tree, &[]));
        }
    }
    cells.extend(targets());
    cells.push(Cell::new(
        Path::Fast,
        Loss::None,
        Data::EightGibibytes,
        OURS,
    ));
    cells.push(Cell::new(
        Path::Far,
        Loss::Frequent,
        Data::Gibibyte,
        BUCKETS,
    ));
    cells.push(Cell::new(
        Path::Veth,
        Loss::None,
        Data::Gibibyte,
        &["bucket-"],
    ));
    for data in [Data::TenGibibytes, Data::Resumed] {
        cells.push(Cell::new(Path::Middle, Loss::None, data, OURS));
    }
    cells
}

/// Returns the cells of the figure of goodput against loss.
fn figure() -> Vec<Cell> {
    let cell = |loss| Cell::new(Path::Far, loss, Data::Gibibyte, FIGURE);
    Loss::FIGURE.map(cell).to_vec()
}

/// Returns the cells that only the targets need.
fn targets() -> Vec<Cell> {
    vec![
        Cell::new(Path::Far, Loss::None, Data::Gibibyte, OURS),
        Cell::new(
            Path::Far,
            Loss::Often,
            Data::Gibibyte,
            &["lighthaul", "iperf3-bbr-1"],
        ),
        Cell::new(Path::Far, Loss::None, Data::HundredMegabytes, OURS),
        Cell::new(
            Path::VethBusy,
            Loss::None,
            Data::SevenHundredMegabytes,
            OURS,
        ),
        Cell::new(Path::Far, Loss::None, Data::Again, TREES),
        Cell::new(Path::Veth, Loss::None, Data::Empty, TREES),
        Cell::new(Path::Ssh, Loss::Rare, Data::HalfGibibyte, OVER_SSH),
    ]
}

fn quick() -> Vec<Cell> {
    let mut cells = targets();
    cells.extend([
        Cell::new(Path::Veth, Loss::None, Data::Memory, &[]),
        Cell::new(Path::VethCut, Loss::None, Data::Memory, &[]),
        Cell::new(
            Path::Far,
            Loss::None,
            Data::Tree,
            &["lighthaul", "rsync", "gridftp-8"],
        ),
        Cell::new(Path::Far, Loss::Rare, Data::HundredMegabytes, FILES),
    ]);
    cells
}

/// Programs that transfer files. Excludes iperf3, which misses the end of so small a transfer.
const FILES: &[&str] = &[
    "lighthaul",
    "rsync",
    "scp",
    "rclone",
    "xrdcp",
    "gridftp",
    "udt",
    "srt",
];
/// Programs of the figure of goodput against loss.
const FIGURE: &[&str] = &[
    "lighthaul",
    "rsync",
    "gridftp-8",
    "iperf3-bbr-1",
    "iperf3-cubic-1",
];
/// Programs that synchronize trees.
const TREES: &[&str] = &["lighthaul", "rsync"];
/// Programs that send all bytes through ssh.
const OVER_SSH: &[&str] = &["ssh-lighthaul", "ssh-rsync", "scp"];
/// Clients of buckets, and files without a bucket.
const BUCKETS: &[&str] = &["lighthaul", "bucket-"];
/// Lighthaul alone.
const OURS: &[&str] = &["lighthaul"];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn filters_select_the_named_cells() {
        let args = |words: &[&str]| Args::parse_from(["bench"].iter().chain(words));
        let one = cells(&args(&[
            "--path", "1g-10ms", "--loss", "1%", "--data", "2GiB",
        ]));
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].path, Path::Near);
        let veth = cells(&args(&["--path", "veth"]));
        assert!(veth.iter().all(|cell| cell.loss == Loss::None));
        assert!(cells(&args(&["--path", "nowhere"])).is_empty());
    }
}
