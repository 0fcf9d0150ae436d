//! What each flow of a network got, over time.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate};

use crate::network::Network;

/// Bytes that each flow placed in each interval, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    interval: Duration,
    rows: Vec<Vec<u64>>,
}

impl Trace {
    /// Runs a network from its beginning until `till`, and notes what each flow got in each `interval`.
    pub fn run<L: Endpoint, R: Endpoint>(
        network: &mut Network<L, R>,
        interval: Duration,
        till: Instant,
    ) -> Self {
        assert!(!interval.is_zero(), "an interval takes some time");
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

    /// The mean goodput of flow `nth` between two moments, to whole intervals.
    pub fn goodput(&self, nth: usize, from: Instant, till: Instant) -> Rate {
        let rows = &self.rows[self.row(from)..self.row(till)];
        let bytes = rows.iter().map(|row| row[nth]).sum();
        Rate::of(bytes, self.interval * rows.len() as u32)
    }

    /// Jain's index of the flows' goodput between two moments: 1 when all got the same, the number's inverse
    /// when one got all.
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

    /// The trace as CSV: the moment in seconds, and each flow's goodput in bits a second.
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
