//! Time limits of tests that run beside others.

use std::fs;
use std::thread::available_parallelism;
use std::time::Duration;

/// Returns `seconds`, scaled by the load of the host: a time limit that separates a usual duration from a timeout. A
/// test that measures runs alone instead.
///
/// # Panics
///
/// Panics if the host does not tell its load.
#[must_use]
pub fn allowance(seconds: u64) -> Duration {
    let text = fs::read_to_string("/proc/loadavg").expect("/proc/loadavg has the load of a host");
    let load = text.split(' ').next().and_then(|word| word.parse().ok());
    let cores = available_parallelism().map_or(1, usize::from);
    stretched(seconds, load.expect("the first number is a load"), cores)
}

fn stretched(seconds: u64, load: f64, cores: usize) -> Duration {
    Duration::from_secs(seconds).mul_f64((load / cores as f64).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_grows_with_the_tasks_of_each_processor() {
        for (load, seconds) in [(0.0, 5), (2.0, 5), (4.0, 10), (9.0, 22)] {
            assert_eq!(stretched(5, load, 2).as_secs(), seconds, "load {load}");
        }
        assert!(allowance(5) >= Duration::from_secs(5));
    }
}
