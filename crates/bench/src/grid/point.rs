//! Points of the grid: a path, its condition, and the choices that are allowed there.

use std::fmt;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_session::protocol::Protocol;
use serde::Deserialize;

/// Point of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) condition: Condition,
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    pub(crate) loss_ppb: u64,
    /// Length of the queue in thousandths of the product of rate and round-trip time.
    pub(crate) queue_milli: u32,
}

/// Use of a path besides the measured transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Condition {
    /// No other traffic; the transfer knows that the path is dedicated.
    Alone,
    /// No other traffic, but the transfer does not know that the path is idle.
    Untold,
    /// A flow of TCP with CUBIC.
    Cubic,
    /// A flow of TCP with BBR.
    Bbr,
    /// Other tasks have the receiver's processor for a part of the time.
    Loaded,
    /// The rate of the link halves in the middle of the transfer.
    Changing,
}

/// Choice of a protocol for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The transfer chooses by itself.
    Auto,
    /// The user has chosen.
    Fixed(Protocol),
}

impl Condition {
    /// All conditions, in the order of the page.
    pub(crate) const ALL: [Self; 6] = [
        Self::Alone,
        Self::Untold,
        Self::Cubic,
        Self::Bbr,
        Self::Loaded,
        Self::Changing,
    ];

    /// Returns the name in plans and tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Untold => "untold",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Loaded => "loaded",
            Self::Changing => "changing",
        }
    }

    /// Returns a title for people.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Alone => "alone, told that the path is dedicated",
            Self::Untold => "alone, not told so",
            Self::Cubic => "beside a flow of CUBIC",
            Self::Bbr => "beside a flow of BBR",
            Self::Loaded => "alone, receiver loaded",
            Self::Changing => "alone, half the rate from the middle on",
        }
    }

    /// Returns true if another flow uses the path.
    pub(crate) const fn is_shared(self) -> bool {
        matches!(self, Self::Cubic | Self::Bbr)
    }

    /// Returns true if the user tells the transfer that no other traffic uses the path.
    pub(crate) const fn is_told_dedicated(self) -> bool {
        matches!(self, Self::Alone | Self::Loaded | Self::Changing)
    }

    /// Returns the choices to compare.
    pub(crate) fn choices(self) -> Vec<Choice> {
        let fixed: &[Protocol] = if self.is_shared() { FAIR } else { ALL };
        let fixed = fixed.iter().map(|protocol| Choice::Fixed(*protocol));
        std::iter::once(Choice::Auto).chain(fixed).collect()
    }
}

impl Choice {
    /// All choices, in the order of the table.
    pub(crate) fn all() -> Vec<Self> {
        Condition::Alone.choices()
    }

    /// Returns the name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Fixed(protocol) => protocol.name(),
        }
    }
}

impl Point {
    /// Returns the longest packet in bytes: links of more than 1 Gb/s carry jumbo frames.
    pub(crate) fn mtu(&self) -> u32 {
        if self.rate > Rate::from_mbps(1000) {
            9000
        } else {
            1500
        }
    }

    /// Returns the length of the queue in bytes.
    pub(crate) fn queue_bytes(&self) -> u64 {
        let product = self.rate.bytes_in(self.rtt);
        let queue = product * u64::from(self.queue_milli) / 1000;
        queue.max(QUEUE_BYTES_MIN)
    }

    /// Returns the packet loss in percent.
    pub(crate) fn loss_percent(&self) -> f64 {
        self.loss_ppb as f64 / 1e7
    }

    /// Returns the length of the queue as a multiple of the product of rate and round-trip time.
    pub(crate) fn queue(&self) -> f64 {
        f64::from(self.queue_milli) / 1000.0
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, rtt) = (self.rate.as_mbps_f64(), self.rtt.as_secs_f64() * 1e3);
        let (loss, queue) = (self.loss_percent(), self.queue());
        write!(
            f,
            "{rate} Mb/s, {rtt} ms, {loss} % loss, queue of {queue} BDP, {}",
            self.condition.name()
        )
    }
}

/// Protocols for a dedicated path. VBTP is missing, as it needs a reservation.
const ALL: &[Protocol] = &[
    Protocol::Tcp,
    Protocol::Ptcp,
    Protocol::Rbudp,
    Protocol::RbudpPlus,
    Protocol::Sabul,
    Protocol::SabulSwift,
];
/// Protocols that yield to others.
const FAIR: &[Protocol] = &[Protocol::Tcp, Protocol::Ptcp, Protocol::SabulSwift];
/// Shortest queue: less than a train of 64 KiB would not pass.
const QUEUE_BYTES_MIN: u64 = 96_000;
