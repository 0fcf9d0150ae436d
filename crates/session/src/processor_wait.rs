//! Demand for the processors of this host.

use std::fs;
use std::thread::available_parallelism;

/// Returns the percentage of the last ten seconds in which a task waited for a processor
/// (`/proc/pressure/cpu`).
///
/// Without that file, returns 100 if the load average exceeds twice the number of processors, else
/// 0.
pub(crate) fn processor_wait() -> u8 {
    let counted = fs::read_to_string("/proc/pressure/cpu").ok();
    if let Some(percent) = counted.as_deref().and_then(waited) {
        return percent;
    }
    let cores = available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").ok();
    let load = load.as_deref().and_then(first);
    if load.is_some_and(|load| load > 2.0 * cores as f64) {
        100
    } else {
        0
    }
}

/// Parses the ten-second average of a line like `some avg10=1.53 avg60=0.87 avg300=0.73 total=1`.
fn waited(pressure: &str) -> Option<u8> {
    let some = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    let word = some
        .split(' ')
        .find_map(|word| word.strip_prefix("avg10="))?;
    let (percent, _) = word.split_once('.')?;
    percent.parse().ok().map(|percent: u8| percent.min(100))
}

fn first(line: &str) -> Option<f64> {
    line.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_and_load_files_are_parsed() {
        let text = "some avg10=99.34 avg60=99.13 avg300=75.65 total=12636695743\nfull avg10=0.00";
        assert_eq!(waited(text), Some(99));
        assert_eq!(waited("some avg10=0.00 avg60=0.00 total=1"), Some(0));
        assert_eq!(waited("full avg10=7.00"), None);
        assert_eq!(first("8.30 6.37 3.55 10/135 12321\n"), Some(8.3));
    }

    #[test]
    fn processor_wait_is_at_most_100_percent() {
        assert!(processor_wait() <= 100);
    }
}
