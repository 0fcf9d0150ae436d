//! Load of the processors of this host, and the time for which a thread waits for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use lighthaul_base::Instant;

/// Time for which one thread was ready to run, but had no processor (`/proc/thread-self/schedstat`).
#[derive(Debug)]
pub struct RunDelay {
    /// File of the thread; none if there is no such file.
    file: Option<PathBuf>,
    /// Total at the start, in nanoseconds.
    before: u64,
    /// Total since the start at the last reading, and the time of that reading.
    latest: (Duration, Instant),
}

impl RunDelay {
    /// Starts to measure the calling thread.
    pub fn of_this_thread() -> Self {
        let own = fs::read_link("/proc/thread-self").ok();
        let file = own.map(|own| Path::new("/proc").join(own).join("schedstat"));
        Self {
            before: file.as_deref().and_then(total_delay).unwrap_or(0),
            file,
            latest: (Duration::ZERO, Instant::ZERO),
        }
    }

    /// Returns the delay since the start, read at most once in 100 ms. It is zero if the kernel does not measure it.
    pub fn read(&mut self, now: Instant) -> Duration {
        if now.since(self.latest.1) >= READ_INTERVAL {
            self.latest.1 = now;
            if let Some(total) = self.file.as_deref().and_then(total_delay) {
                self.latest.0 = Duration::from_nanos(total.saturating_sub(self.before));
            }
        }
        self.latest.0
    }
}

/// Reads the total of a thread, in nanoseconds.
fn total_delay(file: &Path) -> Option<u64> {
    delay_of(&fs::read_to_string(file).ok()?)
}

/// Returns the delay of `schedstat`: nanoseconds on a processor, nanoseconds of delay, number of turns.
fn delay_of(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Minimum time between two readings of a thread's delay.
const READ_INTERVAL: Duration = Duration::from_millis(100);

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
    fn run_delay_is_the_second_number_and_never_falls() {
        assert_eq!(delay_of("5216 81 3\n"), Some(81));
        assert_eq!(delay_of("5216"), None);
        let mut delay = RunDelay::of_this_thread();
        let mut last = Duration::ZERO;
        for nth in 1..100 {
            let now = delay.read(Instant::ZERO + READ_INTERVAL * nth);
            assert!(now >= last, "{now:?} after {last:?}");
            last = now;
        }
    }

    #[test]
    fn processor_wait_is_at_most_100_percent() {
        assert!(processor_wait() <= 100);
    }
}
