//! Rates of a host as a line of a table, for logs and pipes.
//!
//! Times are UTC. `WAIT` is the fraction of the interval in which some task waited for a processor,
//! `IO` that in which some task waited for a disk; `-` stands for a kernel that does not count
//! them. `RX/S` and `TX/S` leave out the loopback interface. `AVAIL` is the available memory.

use jiff::Timestamp;
use lighthaul_base::Size;

use crate::rates::Rates;
use crate::sample::pressure::StallShares;

/// Returns the line for an interval.
pub fn row(rates: &Rates) -> String {
    let (rx, tx) = rates.traffic();
    let (read, write) = rates.transfers();
    let stalls = |shares: Option<StallShares>| {
        shares.map_or_else(|| "-".to_owned(), |shares| percent(shares.some))
    };
    cells(&[
        &time(rates.time_s),
        &percent(rates.cpu.busy()),
        &stalls(rates.pressure.cpu),
        &stalls(rates.pressure.io),
        &bytes(rx),
        &bytes(tx),
        &format!("{:.0}", rates.losses_per_s()),
        &bytes(read),
        &bytes(write),
        &memory(rates),
    ])
}

/// Returns the headings of the columns.
pub fn head() -> String {
    cells(&HEAD)
}

fn cells(cells: &[&str; 10]) -> String {
    let pairs = cells.iter().zip(WIDTHS);
    let cells: Vec<String> = pairs
        .map(|(cell, width)| format!("{cell:>width$}"))
        .collect();
    cells.join(" ")
}

/// Returns a time as in RFC 3339, without fractions of a second.
pub fn time(seconds: f64) -> String {
    Timestamp::from_second(seconds as i64).map_or_else(|_| "-".to_owned(), |time| time.to_string())
}

/// Returns a fraction in percent.
pub fn percent(fraction: f64) -> String {
    format!("{:.0} %", fraction * 100.0)
}

/// Returns bytes, or bytes per second, with a prefix: at most six letters, as in `1.5M`.
pub fn bytes(count: f64) -> String {
    let mut count = count.max(0.0);
    for unit in ["", "K", "M", "G", "T"] {
        if count < 999.5 {
            let is_short = count < 9.95 && !unit.is_empty();
            let digits = usize::from(is_short);
            return format!("{count:.digits$}{unit}");
        }
        count /= 1000.0;
    }
    format!("{count:.0}P")
}

fn memory(rates: &Rates) -> String {
    let available = rates.memory.map(|memory| Size(memory.available_bytes));
    available.map_or_else(|| "-".to_owned(), |size| bytes(size.0 as f64))
}

const HEAD: [&str; 10] = [
    "TIME", "CPU", "WAIT", "IO", "RX/S", "TX/S", "LOST/S", "READ/S", "WRITE/S", "AVAIL",
];
const WIDTHS: [usize; 10] = [20, 5, 5, 5, 5, 5, 6, 6, 7, 6];

#[cfg(test)]
mod tests {
    use crate::sample::memory::Memory;

    use super::*;

    #[test]
    fn sizes_have_at_most_four_characters() {
        for (count, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (999.6, "1.0K"),
            (1500.0, "1.5K"),
            (9_960.0, "10K"),
            (12_345_678.0, "12M"),
            (1e12, "1.0T"),
            (5e17, "500P"),
            (-1.0, "0"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn table_fits_80_columns() {
        let rates = Rates {
            time_s: 1_764_187_200.5,
            memory: Some(Memory {
                available_bytes: 6_000_000_000,
                ..Memory::default()
            }),
            ..Rates::default()
        };
        let row = row(&rates);
        assert!(head().len() < 80 && row.len() == head().len(), "{row}");
        assert!(row.starts_with("2025-11-26T20:00:00Z"), "{row}");
        assert!(row.ends_with("6.0G"), "{row}");
    }
}
