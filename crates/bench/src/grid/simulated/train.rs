//! Measurement of a path by two trains of datagrams, as a copy measures it before its data.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};

/// Datagrams of the first, short train.
const FIRST_LEN: u32 = 96;
/// Duration of the second train.
const TIME: Duration = Duration::from_millis(25);
/// Minimum number of bytes of the second train.
const BYTES_MIN: u64 = 256 << 10;
/// Maximum number of bytes of the second train.
const BYTES_MAX: u64 = 16 << 20;
/// Rate at which a host's network card sends a train.
const CARD_RATE: Rate = Rate::from_mbps(10_000);
/// Time without datagrams after which a train has ended.
const QUIET: Duration = Duration::from_millis(25);
/// Time after which a report no longer comes, as in a copy.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A train that lost up to this fraction (1/50) is measured as if it had lost nothing.
const LOSS_SHARE_MAX: u64 = 50;
/// Rate on a path that lost all of a train.
const RATE_UNKNOWN: Rate = Rate::from_mbps(10);

/// Sending side of the measurement.
#[derive(Debug)]
pub(crate) struct TrainSender {
    datagram_len: u32,
    /// Number of the train, from 1.
    number: u32,
    /// Number of its datagrams.
    count: u32,
    /// Number of datagrams that were sent.
    sent: u32,
    /// Time of the next datagram.
    at: Instant,
    rate: Option<Rate>,
    lost_ppm: u32,
}

impl TrainSender {
    /// Starts the first train at `at`.
    pub(crate) const fn new(at: Instant, datagram_len: u32) -> Self {
        Self {
            datagram_len,
            number: 1,
            count: FIRST_LEN,
            sent: 0,
            at,
            rate: None,
            lost_ppm: 0,
        }
    }

    /// Returns the next datagram, if one is due.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Probe> {
        if now < self.at || self.sent == self.count {
            return None;
        }
        let index = self.sent;
        self.sent += 1;
        self.at += CARD_RATE.time_for(self.datagram_len.into());
        Some(Probe {
            train: self.number as u8,
            index,
            count: self.count,
        })
    }

    /// Returns the time of the next datagram, or at which the report of a lost train is no longer awaited.
    pub(crate) fn due(&self) -> Instant {
        if self.sent < self.count {
            self.at
        } else {
            self.at + TIMEOUT
        }
    }

    /// True if the report of a train is overdue.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.sent == self.count && now >= self.due()
    }

    /// Takes the report of a train. Returns the rate and the loss after the second.
    pub(crate) fn handle_report(&mut self, now: Instant, report: Report) -> Option<(Rate, u32)> {
        let sent = u64::from(self.count - 1) * u64::from(self.datagram_len);
        let lost = u128::from(sent.saturating_sub(report.bytes)) * 1_000_000;
        self.lost_ppm = (lost / u128::from(sent.max(1))) as u32;
        if report.bytes > 0 && !report.time.is_zero() {
            self.rate = Some(Rate::of(report.bytes, report.time));
        }
        if self.number == 2 {
            // slightly less, so that queues drain
            let rate = self.rate.unwrap_or(RATE_UNKNOWN).scaled(995, 1000);
            return Some((rate, self.lost_ppm));
        }
        let bytes = self.rate.map_or(0, |rate| rate.bytes_in(TIME));
        let bytes = bytes.clamp(BYTES_MIN, BYTES_MAX);
        self.number = 2;
        self.count = (bytes / u64::from(self.datagram_len)) as u32;
        (self.sent, self.at) = (0, now);
        None
    }
}

/// Datagram of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    train: u8,
    index: u32,
    count: u32,
}

impl Probe {
    /// Length of the head of a probe.
    pub(crate) const LEN: usize = 9;

    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[0] = self.train;
        octets[1..5].copy_from_slice(&self.index.to_be_bytes());
        octets[5..].copy_from_slice(&self.count.to_be_bytes());
        octets
    }

    pub(crate) fn decode(octets: &[u8]) -> Option<Self> {
        let (train, numbers) = octets.split_first()?;
        let (index, count) = numbers.split_at_checked(4)?;
        let number = |octets: &[u8]| octets.try_into().ok().map(u32::from_be_bytes);
        Some(Self {
            train: *train,
            index: number(index)?,
            count: number(count)?,
        })
    }
}

/// Receiving side of the measurement.
#[derive(Debug, Default)]
pub(crate) struct TrainMeter {
    /// Number of the latest train that was reported.
    reported: u8,
    present: Option<Arrivals>,
}

/// Arrivals of a train.
#[derive(Clone, Copy, Debug)]
struct Arrivals {
    train: u8,
    first: Instant,
    last: Instant,
    /// Number of bytes after the first datagram.
    bytes: u64,
    /// Number of all datagrams.
    datagrams: u64,
    /// Minimum and maximum index.
    indexes: (u32, u32),
    is_whole: bool,
}

/// Report about a train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
}

impl TrainMeter {
    /// Counts a datagram of `len` bytes on the wire. Those of a reported train are late.
    pub(crate) fn handle(&mut self, now: Instant, probe: Probe, len: u32) {
        if probe.train <= self.reported {
            return;
        }
        let arrivals = self.present.get_or_insert(Arrivals {
            train: probe.train,
            first: now,
            last: now,
            bytes: 0,
            datagrams: 0,
            indexes: (probe.index, probe.index),
            is_whole: false,
        });
        if arrivals.datagrams > 0 {
            arrivals.bytes += u64::from(len);
        }
        arrivals.datagrams += 1;
        arrivals.last = now;
        let (least, most) = arrivals.indexes;
        arrivals.indexes = (least.min(probe.index), most.max(probe.index));
        arrivals.is_whole |= probe.index + 1 == probe.count;
    }

    /// Returns the report of a train that has ended. A few lost datagrams count as arrived, since the
    /// path has carried them.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Report> {
        let arrivals = self.present?;
        if !arrivals.is_whole && now < arrivals.last + QUIET {
            return None;
        }
        self.present = None;
        self.reported = arrivals.train;
        let count = arrivals.datagrams;
        let sent = u64::from(arrivals.indexes.1 - arrivals.indexes.0) + 1;
        let bytes = if sent <= count + count / LOSS_SHARE_MAX {
            arrivals.bytes * sent.max(count) / count
        } else {
            arrivals.bytes
        };
        Some(Report {
            bytes,
            time: arrivals.last.since(arrivals.first),
        })
    }

    /// Returns the time at which a train without its last datagram counts as ended.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.present.map(|arrivals| arrivals.last + QUIET)
    }
}

impl Report {
    pub(crate) fn encode(self) -> [u8; 16] {
        let nanos = u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX);
        let mut octets = [0; 16];
        octets[..8].copy_from_slice(&self.bytes.to_be_bytes());
        octets[8..].copy_from_slice(&nanos.to_be_bytes());
        octets
    }

    pub(crate) fn decode(octets: &[u8]) -> Option<Self> {
        let (bytes, nanos) = octets.split_at_checked(8)?;
        let number = |octets: &[u8]| octets.try_into().ok().map(u64::from_be_bytes);
        Some(Self {
            bytes: number(bytes)?,
            time: Duration::from_nanos(number(nanos)?),
        })
    }
}
