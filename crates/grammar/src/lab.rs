//! The grammar of `lighthaul lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Run a command between test hosts
    ///
    /// Without a description there are the hosts a and b on one link.
    #[command(after_long_help = LABS)]
    Run(LabRun),
    /// Run a shell between test hosts
    Shell(LabFlags),
    /// Draw the figures of the papers and compare them with accepted tables
    Figures(LabFigures),
    /// Run a command on another host of this lab
    ///
    /// It works inside `lighthaul lab run` and `lighthaul lab shell`.
    On {
        /// Name of the host
        host: String,
        /// Command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub struct LabFigures {
    /// Directory with plans, tables and pictures
    #[arg(value_name = "DIR", default_value = "figures")]
    pub folder: PathBuf,
    /// Measure every case between test hosts
    ///
    /// Without it the earlier measurements are kept.
    #[arg(long, help_heading = "Advanced")]
    pub emulate: bool,
}

#[derive(Args, Debug)]
pub struct LabRun {
    #[command(flatten)]
    pub flags: LabFlags,
    /// Command to run on the first host
    #[arg(required = true, last = true)]
    pub command: Vec<String>,
}

/// Hosts and their link.
#[derive(Args, Debug, Clone)]
// fields: one for each option of the command
pub struct LabFlags {
    /// TOML file of hosts, routers and links
    pub description: Option<PathBuf>,
    /// Rate, as in 1Gb/s [default: unlimited]
    #[arg(long, help_heading = "Network")]
    pub rate: Option<String>,
    /// Round-trip time, as in 100ms [default: 0]
    #[arg(long, value_name = "DURATION", help_heading = "Network")]
    pub rtt: Option<String>,
    /// One-way delay, as in 50ms, instead of --rtt
    #[arg(long, value_name = "DURATION", help_heading = "Network")]
    pub delay: Option<String>,
    /// Queue, as in 2MB [default: rate x delay]
    #[arg(long, value_name = "SIZE", help_heading = "Network")]
    pub queue: Option<String>,
    /// Random packet loss, as in 0.01%
    #[arg(long, help_heading = "Network")]
    pub loss: Option<String>,
    /// Loss in bursts of packets, as in 0.01%x10
    #[arg(long, value_name = "LOSS", help_heading = "Network")]
    pub burst_loss: Option<String>,
    /// Delay a part of the packets, as in '1% by 2ms'
    #[arg(long, help_heading = "Network")]
    pub reorder: Option<String>,
    /// Duplicate packets, as in 0.1%
    #[arg(long, help_heading = "Network")]
    pub duplicate: Option<String>,
    /// Type of the link: wan (emulated) or veth [default: wan]
    ///
    /// A veth link carries as much as the kernel can.
    #[arg(long, help_heading = "Network")]
    pub kind: Option<String>,
    /// On veth, deliver batches as single packets
    ///
    /// The link cuts them before the receiver, as a network card does.
    #[arg(long, help_heading = "Network")]
    pub segment: bool,
    /// Largest packet in bytes [default: 1500]
    #[arg(long, help_heading = "Network")]
    pub mtu: Option<u32>,
    /// Seed of random events [default: 1]
    #[arg(long, help_heading = "Network")]
    pub seed: Option<u64>,
    /// Host that runs the command [default: the first]
    #[arg(long = "in", value_name = "HOST", help_heading = "Selection")]
    pub host: Option<String>,
    /// Print the counters of the links at the end
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
}

const LABS: &str = "Examples:
  lighthaul lab run --rate 1Gb/s --rtt 100ms --loss 0.01% -- ping -c 3 b
  lighthaul lab run description.toml --in b -- ip address";
