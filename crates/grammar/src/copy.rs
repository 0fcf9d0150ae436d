//! The grammar of `lighthaul cp`.
//!
//! [`Cp`] has the options that only `cp` has, and includes groups of options: [`FileArgs`],
//! [`RemoteArgs`], [`TimingArgs`], [`BookingArgs`] and [`ProgressArgs`]. Its doc comments are the
//! help texts. Hosts and paths stay text here, and are parsed where the copy starts.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum, ValueHint, value_parser};
use lighthaul_base::Rate;
use lighthaul_session::protocol::{AUTO, Protocol};
use lighthaul_session::secrets::JOINS_MAX;

use crate::booking::BookingArgs;
use crate::choice::FileArgs;
use crate::output::ProgressArgs;
use crate::reach::RemoteArgs;
use crate::timing::TimingArgs;

/// Copy files and directories to or from another host
///
/// SRC and DST are local paths, `[USER@]HOST:PATH` (lighthaul is started there over ssh) or `lh://HOST[:PORT]/PATH` (a
/// daemon), or objects: `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, `az://CONTAINER/KEY`; files of web servers (`https://`) are
/// sources only. Between two remote hosts the data goes from one to the other, not through this host. Several daemons that
/// see the same files share the work of a copy: `lh://H1,H2/PATH`. A source that ends in
/// a slash stands for the contents of the directory. Without the slash, the directory is copied into the target under
/// its own name, as rsync does. A file is copied into the target if that is a directory or ends in a slash; otherwise
/// the target is its new name. Directories are always copied with all their contents.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = COPIES, override_usage = "lighthaul cp [OPTIONS] <SRC>... <DST>")]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
// fields: one for each option of the command
pub struct Cp {
    /// Sources, then target: PATH, HOST:PATH, `lh://` or `s3://` URL
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"], value_hint = ValueHint::AnyPath)]
    pub paths: Vec<String>,
    #[command(flatten)]
    pub choice: FileArgs,
    /// Rate on the wire, as in 900Mb/s [default: measured]
    #[arg(long, env = "LIGHTHAUL_RATE", help_heading = "Network")]
    pub rate: Option<Rate>,
    /// Transport: rbudp, tcp, ... [default: auto]
    ///
    /// auto explores the path and chooses; up to 256 KiB go over TCP at once. Through a gateway, it chooses tcp.
    #[arg(
        long,
        value_name = "NAME",
        value_parser = named(),
        env = "LIGHTHAUL_PROTOCOL",
        help_heading = "Network"
    )]
    pub protocol: Option<String>,
    #[command(flatten)]
    pub later: TimingArgs,
    #[command(flatten)]
    pub via: RemoteArgs,
    /// Bandwidth of a circuit over time (TRC vector), or a file with it
    ///
    /// A TRC vector is a list of times and rates, as in '0s-2s 400Mb/s, 2s-5s 900Mb/s'. --protocol vbtp follows it.
    #[arg(
        long,
        value_name = "VECTOR",
        env = "LIGHTHAUL_TRC",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub trc: Option<String>,
    /// Fill the path, which must carry no other traffic
    ///
    /// Without it, auto chooses only protocols that leave other flows their share.
    #[arg(
        long,
        env = "LIGHTHAUL_DEDICATED",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub dedicated: bool,
    /// Number of TCP connections of --protocol ptcp [default: measured]
    #[arg(
        long,
        value_name = "N",
        value_parser = value_parser!(u8).range(1..=i64::from(JOINS_MAX)),
        env = "LIGHTHAUL_STREAMS",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub streams: Option<u8>,
    /// Give each target host whole files of its own
    ///
    /// For several target hosts that share no file system, as in `lh://H1,H2/PATH`. Each file is on one of them. Empty
    /// directories are left out.
    #[arg(
        long,
        env = "LIGHTHAUL_SPLIT",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub split: bool,
    /// Do not encrypt data packets; the other side must agree
    ///
    /// The control connection stays encrypted.
    #[arg(
        long,
        env = "LIGHTHAUL_PLAIN",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub plain: bool,
    /// Carry the data by TCP even where UDP passes
    #[arg(
        long,
        env = "LIGHTHAUL_NO_UDP",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub no_udp: bool,
    #[command(flatten)]
    pub booked: BookingArgs,
    /// Digest of each file [default: crc128, with --plain blake3]
    #[arg(
        long,
        value_enum,
        env = "LIGHTHAUL_DIGEST",
        help_heading = "Verification",
        hide_short_help = true
    )]
    pub digest: Option<Digest>,
    /// Rename files to their final names before the data is on disk
    #[arg(
        long,
        env = "LIGHTHAUL_NO_SYNC",
        help_heading = "Verification",
        hide_short_help = true
    )]
    pub no_sync: bool,
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// Show progress, even without a terminal
    ///
    /// Unlike in rsync, partial files are always kept, also without -P.
    #[arg(short = 'P', help_heading = "Output", hide_short_help = true)]
    pub partial_progress: bool,
    /// Print the path of each entry that is copied
    #[arg(short, long, help_heading = "Output", hide_short_help = true)]
    pub verbose: bool,
    /// Print the changes of each entry, in the letters of rsync
    ///
    /// A line is as in >f.st......: < sent, > received, c created here, h hard link, . attributes only; f file,
    /// d directory, L link; then + for new, or c checksum, s size, t time, p permissions, o owner, g group, u access
    /// time, x attributes. Deletions are *deleting. With -n, the planned changes.
    #[arg(short, long, help_heading = "Output", hide_short_help = true)]
    pub itemize_changes: bool,
    /// Print the chosen protocol, later changes of the rate, and why
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub explain: bool,
    /// Print packets, retransmissions and CPU time at the end
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub stats: bool,
    /// Print events as one JSON object per line
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print errors only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Treat the target as the new name of the source
    ///
    /// Without it, a directory is copied into the target under its own name.
    #[arg(short = 'T', long, help_heading = "Selection", hide_short_help = true)]
    pub no_target_directory: bool,
    /// Accepted for compatibility with cp; directories are always copied whole
    #[arg(short = 'r', long, hide = true, help_heading = "Advanced")]
    pub recursive: bool,
}

/// Returns the parser of protocol names and of `auto`.
fn named() -> PossibleValuesParser {
    let names = Protocol::ALL.iter().map(|protocol| protocol.name());
    PossibleValuesParser::new(names.chain([AUTO]))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Digest {
    /// CRC-64/NVME with CRC-64/XZ: detects accidents in memory, on disks and in software, but no forgery
    Crc128,
    /// BLAKE3: detects forgery too, so that unencrypted packets need no trust in the path
    Blake3,
}

const COPIES: &str = "Examples:
  lighthaul cp results alice@far.example.org:/data
  lighthaul cp lh://far.example.org/results/run1.h5 .
  lighthaul cp results/ s3://archive/results/
  lighthaul cp lh://a1,a2/results lh://b1,b2/archive/
  lighthaul cp --rate 900Mb/s --json results lh://far.example.org/archive/";
