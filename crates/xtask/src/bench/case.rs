//! Paths, losses and data, and which of them go together.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::args::Args;

/// A path of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Path {
    /// As fast as the kernel, trains crossing whole.
    Veth,
    /// The same with trains cut before the receiver, as an honest NIC does.
    VethCut,
    /// As fast as the kernel, to a program that shares its core.
    VethBusy,
    /// 1 Gb/s, 10 ms.
    Near,
    /// 1 Gb/s, 100 ms.
    Far,
    /// 5 Gb/s, 115 ms.
    Fast,
}

impl Path {
    /// How it is called in flags and tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::VethCut => "veth-cut",
            Self::VethBusy => "veth-busy",
            Self::Near => "1g-10ms",
            Self::Far => "1g-100ms",
            Self::Fast => "5g-115ms",
        }
    }

    /// Its rate, and its delay there and back.
    const fn numbers(self) -> Option<(u64, u64)> {
        match self {
            Self::Veth | Self::VethCut | Self::VethBusy => None,
            Self::Near => Some((1, 10)),
            Self::Far => Some((1, 100)),
            Self::Fast => Some((5, 115)),
        }
    }

    /// Its delay there and back; next to nothing on a plain pair.
    pub(crate) fn rtt(self) -> Duration {
        Duration::from_millis(self.numbers().map_or(0, |(_, rtt)| rtt))
    }

    /// Tasks that copy memory on the core of the program that receives.
    pub(crate) const fn tasks(self) -> u32 {
        if matches!(self, Self::VethBusy) { 4 } else { 0 }
    }

    /// Bits a second that full packets of 1500 bytes carry as payload of UDP.
    pub(crate) fn payload_bps(self) -> Option<f64> {
        self.numbers()
            .map(|(gbps, _)| gbps as f64 * 1e9 * 1472.0 / 1500.0)
    }

    /// What `lighthaul lab run` is told.
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

/// Packets lost at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Loss {
    /// None of them.
    None,
    /// One of ten thousand.
    Rare,
    /// One of a hundred.
    Often,
}

impl Loss {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Rare, Self::Often];
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "0",
            Self::Rare => "0.01%",
            Self::Often => "1%",
        })
    }
}

/// What is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Data {
    /// Nothing that is kept: memory to memory, for a time.
    Memory,
    /// One file of 2 GiB.
    File,
    /// 10,000 files of 10 KB.
    Tree,
    /// One file of 1 GiB.
    Gibibyte,
    /// One file of 100 MB: as much as the tree.
    HundredMegabytes,
    /// One file of 700 MB: as the RBUDP+ paper has it.
    SevenHundredMegabytes,
    /// One file of 8 GiB.
    EightGibibytes,
    /// 100,000 small files that are there already, since the last run.
    Again,
    /// 1,000,000 files of nothing.
    Empty,
}

impl Data {
    /// How it is called in flags and tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "2GiB",
            Self::Tree => "10000x10KB",
            Self::Gibibyte => "1GiB",
            Self::HundredMegabytes => "100MB",
            Self::SevenHundredMegabytes => "700MB",
            Self::EightGibibytes => "8GiB",
            Self::Again => "100000-again",
            Self::Empty => "1000000-empty",
        }
    }

    /// How many files of how many bytes.
    pub(crate) const fn files(self) -> (u64, u64) {
        match self {
            Self::Memory => (0, 0),
            Self::File => (1, 2 << 30),
            Self::Tree => (10_000, 10_000),
            Self::Gibibyte => (1, 1 << 30),
            Self::HundredMegabytes => (1, 100_000_000),
            Self::SevenHundredMegabytes => (1, 700_000_000),
            Self::EightGibibytes => (1, 8 << 30),
            Self::Again => (100_000, 100),
            Self::Empty => (1_000_000, 0),
        }
    }

    /// All its bytes.
    pub(crate) const fn bytes(self) -> u64 {
        let (count, bytes) = self.files();
        count * bytes
    }

    /// Whether it is one file.
    pub(crate) const fn is_one_file(self) -> bool {
        self.files().0 == 1
    }
}

/// One cell of the table: what is moved over which path, by whom.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) path: Path,
    pub(crate) loss: Loss,
    pub(crate) data: Data,
    /// The beginnings of the names of those that take part; empty: all.
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

    /// Whether the program of this name takes part.
    pub(crate) fn has(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|start| tool.starts_with(start))
    }
}

/// The cells that `args` ask for.
pub(crate) fn cells(args: &Args) -> Vec<Cell> {
    let all = if args.quick { quick() } else { full() };
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
        // a plain pair loses nothing
        let losses = if path == Path::Veth {
            &Loss::ALL[..1]
        } else {
            &Loss::ALL[..]
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
    cells
}

/// Cells that only the targets need.
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

/// Those that move files; so few bytes are too few for iperf3, whose receiver misses the last.
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
/// Those that keep trees alike.
const TREES: &[&str] = &["lighthaul", "rsync"];
/// Lighthaul's own.
const OURS: &[&str] = &["lighthaul"];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn filters_leave_what_they_name() {
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
