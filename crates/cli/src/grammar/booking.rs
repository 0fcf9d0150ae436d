//! The grammar of the scheduler and of those who ask it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use lighthaul_base::{Rate, Size, duration};
use lighthaul_booking::word::Bytes;
use lighthaul_circuit::flow::Flow;
use lighthaul_circuit::reservation::State;

use crate::grammar::output::Output;
use crate::grammar::time::Time;

/// Which scheduler is asked.
#[derive(Args, Clone, Debug)]
pub(crate) struct At {
    /// Where the scheduler is
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://127.0.0.1:4811",
        env = "LIGHTHAUL_SCHEDULER"
    )]
    pub(crate) scheduler: String,
}

/// Which scheduler is asked, and how it is known.
#[derive(Args, Clone, Debug)]
pub(crate) struct Asking {
    #[command(flatten)]
    pub(crate) at: At,
    /// The file with the token that the scheduler knows us by; or the token itself in `LIGHTHAUL_SCHEDULER_TOKEN`
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_SCHEDULER_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The key that the scheduler must show (sha256:...), instead of a known one or a certificate
    #[arg(long, value_name = "KEY", env = "LIGHTHAUL_PIN")]
    pub(crate) pin: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// The circuit that a copy books.
#[derive(Args, Clone, Debug)]
pub(crate) struct Booked {
    /// Book what the copy needs, wait for it, keep to it, and leave to others what is left of it
    #[arg(long, conflicts_with_all = ["trc", "limit"], env = "LIGHTHAUL_BOOK")]
    pub(crate) book: bool,
    #[command(flatten)]
    pub(crate) at: At,
    /// The file with the token that the scheduler knows us by; or the token itself in `LIGHTHAUL_SCHEDULER_TOKEN`
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_SCHEDULER_TOKEN_FILE")]
    pub(crate) scheduler_token: Option<PathBuf>,
    /// What the scheduler calls this host, or the one that sends if both are others [default: its name]
    #[arg(long, value_name = "HOST", env = "LIGHTHAUL_NODE")]
    pub(crate) node: Option<String>,
    /// What the scheduler calls the far side [default: as it is called here]
    #[arg(long, value_name = "HOST")]
    pub(crate) far_node: Option<String>,
    /// How much is booked [default: what a dry run finds that there is to send]
    #[arg(long, value_name = "SIZE")]
    pub(crate) book_size: Option<Size>,
    /// Where a circuit is to begin, as `lighthaul book --interface` has it [default: none is made]
    #[arg(long, value_name = "NAME", env = "LIGHTHAUL_CIRCUIT")]
    pub(crate) circuit: Option<String>,
}

/// Book capacity between two hosts for so many bytes, or for so long.
///
/// What is booked is the fastest that the links leave free, from now on or from --start: its rate may vary,
/// and the time when all is over is promised. If that is later than --by, nothing is booked, and what could
/// be had instead is said.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul book chicago amsterdam --size 1.2TB --rate-max 10Gb/s
  lighthaul book chicago amsterdam --size 1.2TB --by 18:00
  lighthaul book chicago amsterdam --hold 2h --rate-min 1Gb/s --start 2031-05-01T06:00
  lighthaul book --tentative chicago amsterdam --size 1.2TB && lighthaul book --commit 17")]
pub(crate) struct Book {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Hold it for a while rather than commit
    #[arg(long, conflicts_with = "commit")]
    pub(crate) tentative: bool,
    /// Take up what was held with --tentative
    #[arg(long, value_name = "ID", conflicts_with_all = ["from", "to", "path", "size", "hold"])]
    pub(crate) commit: Option<u64>,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// Say what a booking would be given, and book nothing.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul quote chicago amsterdam --size 1.2TB
  lighthaul quote --json chicago amsterdam --size 1.2TB --by 18:00 | jq -r .promised_end")]
pub(crate) struct Quote {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// What is to be booked.
#[derive(Args, Debug)]
pub(crate) struct Wanted {
    /// The host that sends, as the topology names it
    #[arg(requires = "to")]
    pub(crate) from: Option<String>,
    /// The host that receives
    pub(crate) to: Option<String>,
    /// The links in order, instead of the hosts; separated by commas
    #[arg(
        long,
        value_name = "LINK",
        value_delimiter = ',',
        conflicts_with = "from"
    )]
    pub(crate) path: Option<Vec<String>>,
    /// How much is to be moved, as in 1.2TB
    #[arg(long)]
    pub(crate) size: Option<Bytes>,
    /// How long it is wanted, whatever is moved, as in 2h
    #[arg(long, value_name = "DURATION", conflicts_with = "size", value_parser = duration::parse)]
    pub(crate) hold: Option<Duration>,
    /// The highest rate that is of use [default: what the path carries]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate_max: Option<Rate>,
    /// The lowest rate that is of use
    #[arg(long, value_name = "RATE")]
    pub(crate) rate_min: Option<Rate>,
    /// Not before this local time, as in 18:30 or 2031-05-01T06:00 [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Option<Time>,
    /// All must be over by this local time
    #[arg(long, value_name = "TIME")]
    pub(crate) by: Option<Time>,
    /// What is added to the size for headers and resends, in hundredths
    #[arg(long, value_name = "PERCENT", default_value_t = 3, value_parser = value_parser!(u8).range(0..=100))]
    pub(crate) margin: u8,
    /// Priority when capacity is freed (higher first) [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<u8>,
    /// The highest rate all the time, rather than what is free
    #[arg(long)]
    pub(crate) fixed: bool,
    /// Where a circuit is to begin: an interface of the scheduler's host, or a port of its switch
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Packets that the circuit carries, as in 'udp 10.0.0.2 5000' [default: all, for operators only]
    #[arg(long, value_name = "FLOW", requires = "interface")]
    pub(crate) packets: Option<Flow>,
}

/// List reservations, or show some of them whole.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul reservations
  lighthaul reservations 17
  lighthaul reservations --json --state active | jq -r .id")]
pub(crate) struct Reservations {
    /// Their numbers; all, if none is given
    pub(crate) ids: Vec<u64>,
    /// Those of somebody else, for operators
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
    /// Those in this state
    #[arg(long, value_parser = state)]
    pub(crate) state: Option<State>,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// Call reservations off; what they had is free for others at once.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul cancel 17
  lighthaul cancel --why 'the run was bad' 17 18")]
pub(crate) struct Cancel {
    /// Their numbers
    #[arg(required = true)]
    pub(crate) ids: Vec<u64>,
    /// Why, for the journal
    #[arg(long, default_value = "")]
    pub(crate) why: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// Draw what is free of links when, and who has the rest.
///
/// A column is as high as what is free all through its time. With --plot, a picture is written instead.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul calendar
  lighthaul calendar chicago-newyork --for 2h
  lighthaul calendar chicago-newyork --plot busy.svg")]
pub(crate) struct Calendar {
    /// The links [default: all]
    pub(crate) links: Vec<String>,
    /// From this local time on [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Time>,
    /// For so long
    #[arg(long = "for", value_name = "DURATION", default_value = "24h", value_parser = duration::parse)]
    pub(crate) lasting: Duration,
    /// Write a picture to FILE.svg or FILE.png
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// Reads a state by its name.
fn state(text: &str) -> Result<State, String> {
    let found = State::ALL
        .into_iter()
        .find(|state| state.to_string() == text);
    let names = || State::ALL.map(|state| state.to_string()).join(", ");
    found.ok_or_else(|| format!("\"{text}\" is no state: there are {}", names()))
}
