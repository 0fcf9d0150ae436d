//! The grammar of `lighthaul lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run a command between test hosts; with no description, hosts a and b on one link
    #[command(after_long_help = LABS)]
    Run(LabRun),
    /// Run a shell between test hosts
    Shell(LabFlags),
    /// Draw the papers' figures again, and say what is not as it was accepted
    Figures(LabFigures),
    /// From inside a lab: run a command on another of its hosts
    On {
        /// The host
        host: String,
        /// The command
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct LabFigures {
    /// Plans, tables and pictures
    #[arg(value_name = "DIR", default_value = "figures")]
    pub(crate) folder: PathBuf,
    /// Measure every case between test hosts too; else earlier measurements are kept
    #[arg(long)]
    pub(crate) emulate: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LabRun {
    #[command(flatten)]
    pub(crate) flags: LabFlags,
    /// The command, run on the first host
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct LabFlags {
    /// A TOML file of hosts, routers and links
    pub(crate) description: Option<PathBuf>,
    /// Rate of the link, as in 1Gb/s [default: unlimited]
    #[arg(long)]
    pub(crate) rate: Option<String>,
    /// Round-trip time, as in 100ms
    #[arg(long)]
    pub(crate) rtt: Option<String>,
    /// Delay one way
    #[arg(long)]
    pub(crate) delay: Option<String>,
    /// Bytes that queue before the link [default: one bandwidth-delay product]
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Packets lost at random, as in 0.01%
    #[arg(long)]
    pub(crate) loss: Option<String>,
    /// Loss in bursts: how often one begins, and how many packets it takes, as in 0.01%x10
    #[arg(long)]
    pub(crate) burst_loss: Option<String>,
    /// Packets that arrive late, as in 1%x2ms
    #[arg(long)]
    pub(crate) reorder: Option<String>,
    /// Packets that arrive twice
    #[arg(long)]
    pub(crate) duplicate: Option<String>,
    /// What the link is: wan (emulated) or veth (as fast as the kernel)
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// On veth, cut trains into packets before the receiver, as a network card does
    #[arg(long)]
    pub(crate) segment: bool,
    /// The largest packet
    #[arg(long)]
    pub(crate) mtu: Option<u32>,
    /// Repeat the chances of an earlier run
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The host that the command runs on
    #[arg(long = "in", value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Print what the links have seen
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const LABS: &str = "Examples:
  lighthaul lab run --rate 1Gb/s --rtt 100ms --loss 0.01% -- ping -c 3 b
  lighthaul lab run description.toml --in b -- ip address";
