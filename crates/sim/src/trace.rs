//! Goodput of each flow of a network over time.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate};

use crate::network::Network;

/// Bytes that each flow delivered in each of the consecutive intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    interval: Duration,
    rows: Vec<Vec<u64>>,
}

impl Trace {
    /// Runs a network from time zero until `till`, and records the bytes that each flow delivered in each `interval`.
    /// Panics if `interval` is zero.
    pub fn run<L: Endpoint, R: Endpoint>(
        network: &mut Network<L, R>,
        interval: Duration,
        till: Instant,
    ) -> Self {
        assert!(!interval.is_zero(), "the interval must not be zero");
        let mut rows = Vec::new();
        let mut before: Vec<u64> = network.flows().iter().map(|_| 0).collect();
        let mut at = Instant::ZERO + interval;
        while at <= till {
            network.run(at, |_, _, _| ());
            let placed = network.flows().iter().map(crate::Flow::placed_bytes);
            let row = placed.zip(&mut before).map(|(now, before)| {
                let bytes = now - *before;
                *before = now;
                bytes
            });
            rows.push(row.collect());
            at += interval;
        }
        Self { interval, rows }
    }

    /// Returns the mean goodput of flow `nth` between two times, which are rounded down to whole intervals.
    pub fn goodput(&self, nth: usize, from: Instant, till: Instant) -> Rate {
        let rows = &self.rows[self.row(from)..self.row(till)];
        let bytes = rows.iter().map(|row| row[nth]).sum();
        Rate::of(bytes, self.interval * rows.len() as u32)
    }

    /// Returns Jain's fairness index of the flows' goodput between two times. It is 1 if all flows got the same, and
    /// 1/n if one of n flows got everything.
    pub fn fairness(&self, from: Instant, till: Instant) -> f64 {
        let flows = self.rows.first().map_or(0, Vec::len);
        let goodput = |nth| self.goodput(nth, from, till).as_bps() as f64;
        let (sum, squares) = (0..flows)
            .map(goodput)
            .fold((0.0, 0.0), |(sum, squares), rate| {
                (sum + rate, squares + rate * rate)
            });
        sum * sum / (flows as f64 * squares)
    }

    /// Returns the trace as CSV: the time in seconds, and the goodput of each flow in bits per second.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        let mut at = Instant::ZERO;
        for row in &self.rows {
            at += self.interval;
            let _ = write!(text, "{at}");
            for bytes in row {
                let _ = write!(text, ",{}", Rate::of(*bytes, self.interval).as_bps());
            }
            text.push('\n');
        }
        text
    }

    fn row(&self, at: Instant) -> usize {
        let nth = u128::from(at.as_nanos()) / self.interval.as_nanos();
        usize::try_from(nth).map_or(self.rows.len(), |nth| nth.min(self.rows.len()))
    }
}
