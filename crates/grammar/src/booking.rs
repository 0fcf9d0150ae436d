//! The grammar of the commands that ask a scheduler, and of copies that book.
//!
//! `book`, `quote`, `modify` and `extend` share [`RequestArgs`] and [`ChangeArgs`], so an option
//! means the same in all of them. Times on the command line are local; requests to the scheduler
//! carry UTC.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use lighthaul_base::{Rate, Size, duration};
use lighthaul_booking_client::json::Bytes;
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_circuit::flow::Flow;

use crate::output::OutputArgs;
use crate::time::Time;

/// Scheduler to ask.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Booking")]
pub struct SchedulerArgs {
    /// URL of the scheduler
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://127.0.0.1:4811",
        env = "LIGHTHAUL_SCHEDULER",
        hide_short_help = true
    )]
    pub scheduler: String,
    /// File with the token for the scheduler
    ///
    /// `LIGHTHAUL_SCHEDULER_TOKEN` may hold the token itself.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_SCHEDULER_TOKEN_FILE",
        hide_short_help = true
    )]
    pub scheduler_token: Option<PathBuf>,
}

/// Scheduler to ask, and its identity.
#[derive(Args, Clone, Debug)]
pub struct ClientArgs {
    /// URL of the scheduler
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://127.0.0.1:4811",
        env = "LIGHTHAUL_SCHEDULER",
        help_heading = "Network"
    )]
    pub scheduler: String,
    /// File with the token for the scheduler
    ///
    /// `LIGHTHAUL_SCHEDULER_TOKEN` may hold the token itself.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_SCHEDULER_TOKEN_FILE",
        help_heading = "Network"
    )]
    pub token_file: Option<PathBuf>,
    /// Require this key of the scheduler (sha256:...)
    ///
    /// Without it the scheduler must show a trusted certificate or the key in `known_hosts`.
    #[arg(
        long,
        value_name = "KEY",
        env = "LIGHTHAUL_PIN",
        help_heading = "Network"
    )]
    pub pin: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Reservation of a circuit for a copy.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Booking")]
pub struct BookingArgs {
    /// Book bandwidth for the copy and wait for it
    ///
    /// The copy follows the reservation and releases the rest when it is done.
    #[arg(long, conflicts_with_all = ["trc", "limit"], env = "LIGHTHAUL_BOOK")]
    pub book: bool,
    /// Reserve a path across domains for the copy
    ///
    /// The service of this host's domain reserves it, as `lighthaul path` does. --node and --far-node are the end
    /// points.
    #[arg(long, conflicts_with_all = ["book", "circuit", "trc", "limit"], hide_short_help = true)]
    pub book_path: bool,
    /// Socket of the domain service [default: this host's domain.sock]
    #[arg(
        long,
        value_name = "PATH",
        env = "LIGHTHAUL_DOMAINS_SOCKET",
        hide_short_help = true
    )]
    pub domain_socket: Option<PathBuf>,
    #[command(flatten)]
    pub at: SchedulerArgs,
    /// Name of this host in the topology [default: its host name]
    ///
    /// Between two remote hosts it is the name of the one that sends.
    #[arg(
        long,
        value_name = "HOST",
        env = "LIGHTHAUL_NODE",
        hide_short_help = true
    )]
    pub node: Option<String>,
    /// Name of the other host in the topology [default: from SRC or DST]
    #[arg(long, value_name = "HOST", hide_short_help = true)]
    pub far_node: Option<String>,
    /// Bytes to book [default: counted by a dry run]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub book_size: Option<Size>,
    /// Interface or port where a circuit begins [default: no circuit]
    ///
    /// See `lighthaul book --interface`.
    #[arg(
        long,
        value_name = "NAME",
        env = "LIGHTHAUL_CIRCUIT",
        hide_short_help = true
    )]
    pub circuit: Option<String>,
}

/// Book capacity between two hosts
///
/// The scheduler books the highest rate that is free, from now on or from --start. The rate may vary over time,
/// and the end is promised. If the end is later than --by, nothing is booked, and the scheduler makes a counter-offer.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul book chicago amsterdam --size 1.2TB --rate-max 10Gb/s
  lighthaul book chicago amsterdam --size 1.2TB --by 18:00
  lighthaul book chicago amsterdam --hold 2h --rate-min 1Gb/s --start 2031-05-01T06:00
  lighthaul book --tentative chicago amsterdam --size 1.2TB && lighthaul book --commit 17")]
pub struct Book {
    #[command(flatten)]
    pub wanted: RequestArgs,
    /// Reserve without commitment; expires unless committed
    #[arg(long, conflicts_with = "commit", help_heading = "Booking")]
    pub tentative: bool,
    /// Commit a tentative reservation
    #[arg(long, value_name = "ID", conflicts_with_all = ["from", "to", "path", "size", "hold"], help_heading = "Booking")]
    pub commit: Option<u64>,
    #[command(flatten)]
    pub asking: ClientArgs,
}

/// Show the offer for a booking without booking it
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul quote chicago amsterdam --size 1.2TB
  lighthaul quote --json chicago amsterdam --size 1.2TB --by 18:00 | jq -r .promised_end")]
pub struct Quote {
    #[command(flatten)]
    pub wanted: RequestArgs,
    #[command(flatten)]
    pub asking: ClientArgs,
}

/// Capacity to book.
#[derive(Args, Debug)]
// fields: one for each option of a request
pub struct RequestArgs {
    /// Sending host in the topology
    #[arg(requires = "to")]
    pub from: Option<String>,
    /// Receiving host in the topology
    pub to: Option<String>,
    /// Links in order, instead of the hosts
    ///
    /// They are separated by commas.
    #[arg(
        long,
        value_name = "LINK",
        value_delimiter = ',',
        conflicts_with = "from",
        help_heading = "Booking"
    )]
    pub path: Option<Vec<String>>,
    /// Bytes to move, as in 1.2TB
    #[arg(long, help_heading = "Booking")]
    pub size: Option<Bytes>,
    /// Duration, independent of the amount of data, as in 2h
    #[arg(long, value_name = "DURATION", conflicts_with = "size", value_parser = duration::parse, help_heading = "Booking")]
    pub hold: Option<Duration>,
    /// Highest useful rate [default: capacity of the path]
    #[arg(long, value_name = "RATE", help_heading = "Booking")]
    pub rate_max: Option<Rate>,
    /// Lowest useful rate
    #[arg(long, value_name = "RATE", help_heading = "Booking")]
    pub rate_min: Option<Rate>,
    /// Earliest start, as in 18:30 or 2031-05-01T06:00 [default: now]
    ///
    /// Local time, or with a UTC offset.
    #[arg(long, value_name = "TIME", help_heading = "Booking")]
    pub start: Option<Time>,
    /// Latest end, as in 18:30 or 2031-05-01T06:00
    #[arg(long, value_name = "TIME", help_heading = "Booking")]
    pub by: Option<Time>,
    /// Book a constant rate instead of a varying one
    #[arg(long, help_heading = "Booking")]
    pub fixed: bool,
    /// Percent added to the size for headers and retransmissions
    #[arg(long, value_name = "PERCENT", default_value_t = 3, value_parser = value_parser!(u8).range(0..=100), hide_short_help = true, help_heading = "Booking")]
    pub margin: u8,
    /// Priority when capacity is freed (higher first) [default: 0]
    #[arg(
        long,
        value_name = "N",
        hide_short_help = true,
        help_heading = "Booking"
    )]
    pub priority: Option<u8>,
    /// Interface or switch port where a circuit begins
    #[arg(long, value_name = "NAME", help_heading = "Circuits")]
    pub interface: Option<String>,
    /// Packets of the circuit, as in 'udp 10.0.0.2 5000' [default: all]
    ///
    /// Only operators may have all packets.
    #[arg(
        long,
        value_name = "FLOW",
        requires = "interface",
        help_heading = "Circuits"
    )]
    pub packets: Option<Flow>,
}

/// List reservations, or show some of them in full
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul reservations
  lighthaul reservations 17
  lighthaul reservations --json --state active | jq -r .id")]
pub struct Reservations {
    /// Numbers of reservations to show in full
    pub ids: Vec<u64>,
    /// List reservations of this owner (for operators)
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    pub owner: Option<String>,
    /// List reservations in this state, as in active
    #[arg(long, value_parser = state, help_heading = "Selection")]
    pub state: Option<ReservationState>,
    #[command(flatten)]
    pub asking: ClientArgs,
}

/// Change the size or the duration of a reservation
///
/// An extension needs free capacity after the present end. The elapsed part of a reservation does not change.
#[derive(Args, Debug)]
#[command(
    after_long_help = "Examples:
  lighthaul modify 17 --size 800GB
  lighthaul modify 18 --by 20:00 --why 'the run takes longer'",
    override_usage = "lighthaul modify <ID> --size <SIZE> | --hold <DURATION> | --by <TIME>"
)]
pub struct Modify {
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Extend a reservation
///
/// Does the same as `lighthaul modify`, but refuses to make a reservation smaller.
#[derive(Args, Debug)]
#[command(
    after_long_help = "Examples:
  lighthaul extend 17 --size 2TB
  lighthaul extend 18 --hold 3h",
    override_usage = "lighthaul extend <ID> --size <SIZE> | --hold <DURATION> | --by <TIME>"
)]
pub struct Extend {
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// New size or duration of a reservation.
#[derive(Args, Debug)]
#[group(id = "new", required = true, multiple = false, args = ["size", "hold", "by"])]
pub struct ChangeArgs {
    /// Number of the reservation
    pub id: u64,
    /// New size, of a reservation that has one
    #[arg(long, help_heading = "Booking")]
    pub size: Option<Bytes>,
    /// New duration, counted from the start of the reservation
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Booking")]
    pub hold: Option<Duration>,
    /// New end of a reservation with a duration, as in 18:30 or 2031-05-01T06:00
    #[arg(long, value_name = "TIME", help_heading = "Booking")]
    pub by: Option<Time>,
    /// Reason, for the journal of the reservation
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Booking"
    )]
    pub why: String,
    #[command(flatten)]
    pub asking: ClientArgs,
}

/// Cancel reservations and free their capacity
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul cancel 17
  lighthaul cancel --why 'the run was bad' 17 18")]
pub struct Cancel {
    /// Numbers of the reservations
    #[arg(required = true)]
    pub ids: Vec<u64>,
    /// Reason, for the journal of the reservation
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Booking"
    )]
    pub why: String,
    #[command(flatten)]
    pub asking: ClientArgs,
}

/// Draw the free capacity of links over time
///
/// The height of a column is the capacity that is free during its whole time. With --plot it writes a picture instead.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul calendar
  lighthaul calendar chicago-newyork --for 2h
  lighthaul calendar chicago-newyork --plot busy.svg")]
pub struct Calendar {
    /// Names of the links to draw [default: all]
    pub links: Vec<String>,
    /// Start of the time span, as in 18:30 or 2031-05-01T06:00 [default: now]
    #[arg(long, value_name = "TIME", help_heading = "Selection")]
    pub from: Option<Time>,
    /// Length of the time span, as in 2h
    #[arg(long = "for", value_name = "DURATION", default_value = "24h", value_parser = duration::parse, help_heading = "Selection")]
    pub lasting: Duration,
    /// Write a picture to FILE.svg or FILE.png
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub asking: ClientArgs,
}

/// Parses the name of a state.
fn state(text: &str) -> Result<ReservationState, String> {
    let found = ReservationState::ALL
        .into_iter()
        .find(|state| state.to_string() == text);
    let names = || {
        ReservationState::ALL
            .map(|state| state.to_string())
            .join(", ")
    };
    found.ok_or_else(|| format!("unknown state \"{text}\": use one of {}", names()))
}
