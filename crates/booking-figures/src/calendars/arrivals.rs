//! Random files of section 3.3.1 of the VBLS paper: arrival times, sizes, and the rates of their
//! hosts.

use lighthaul_base::{Instant, Rng};
use lighthaul_calendar::Need;

/// File to be transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Arrival time of the request for the file.
    pub at: Instant,
    /// Size in bytes.
    pub bytes: u64,
    /// Index in [`CLASSES`] of the largest rate of the file's hosts.
    pub class: usize,
    /// Part of the bytes that is retransmitted, in millionths.
    pub resent_ppm: u32,
    /// Random number for other choices about the file.
    pub chance: u64,
}

impl File {
    /// Returns the capacity that the file uses, retransmissions included, in the unit of
    /// [`Need::work`].
    pub fn work(&self) -> u128 {
        let need = Need::Size {
            bytes: self.bytes,
            margin_ppm: self.resent_ppm,
        };
        need.work()
    }
}

/// Generates `count` files that offer `bps` bits per second on average. Equal seeds give equal
/// files on every machine.
#[expect(clippy::cast_sign_loss, reason = "time starts at zero")]
pub fn files(seed: u64, count: usize, bps: f64, resent_ppm_max: u32) -> Vec<File> {
    let mut rng = Rng::new(seed);
    let mut at = 0.0;
    let gap = mean_bytes() * 8.0 / bps * 1e9;
    let file = |_| {
        // A Poisson process: the gaps are exponentially distributed.
        at -= gap * libm::log(1.0 - part(&mut rng));
        File {
            at: Instant::from_nanos(at as u64),
            bytes: bytes(&mut rng),
            class: class(&mut rng),
            resent_ppm: rng.below(u64::from(resent_ppm_max) + 1) as u32,
            chance: rng.next_u64(),
        }
    };
    (0..count).map(file).collect()
}

/// Draws a bounded Pareto number (equation 2 of the paper) by inversion.
#[expect(clippy::cast_sign_loss, reason = "the number lies between two sizes")]
fn bytes(rng: &mut Rng) -> u64 {
    let cut = 1.0 - libm::pow(LEAST_BYTES / MOST_BYTES, ALPHA);
    (LEAST_BYTES / libm::pow(1.0 - part(rng) * cut, 1.0 / ALPHA)) as u64
}

/// Returns the mean size of a file, in bytes.
pub fn mean_bytes() -> f64 {
    let (least, most) = (
        libm::pow(LEAST_BYTES, 1.0 - ALPHA),
        libm::pow(MOST_BYTES, 1.0 - ALPHA),
    );
    let cut = 1.0 - libm::pow(LEAST_BYTES / MOST_BYTES, ALPHA);
    libm::pow(LEAST_BYTES, ALPHA) * ALPHA / (ALPHA - 1.0) * (least - most) / cut
}

fn class(rng: &mut Rng) -> usize {
    match rng.below(10) {
        0..3 => 0,
        3..6 => 1,
        _ => 2,
    }
}

/// Draws a number from 0 (included) to 1 (excluded).
pub(crate) fn part(rng: &mut Rng) -> f64 {
    rng.below(1 << 53) as f64 / (1_u64 << 53) as f64
}

/// Largest rates (`R_max`) in the paper, in channels. A file has one of them with probability 0.3,
/// 0.3 and 0.4.
pub const CLASSES: [u64; 3] = [1, 5, 10];
const ALPHA: f64 = 1.1;
const LEAST_BYTES: f64 = 500e6;
const MOST_BYTES: f64 = 100e9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_specified_load_and_sizes() {
        let files = files(1, 200_000, 1e12, 40_000);
        let seconds = files[files.len() - 1].at.as_secs_f64();
        let bits: f64 = files.iter().map(|file| file.bytes as f64 * 8.0).sum();
        assert!(
            (mean_bytes() / 2.269e9 - 1.0).abs() < 0.001,
            "{}",
            mean_bytes()
        );
        assert!(
            (bits / seconds / 1e12 - 1.0).abs() < 0.05,
            "{} b/s",
            bits / seconds
        );
        assert!(
            files
                .iter()
                .all(|file| (500_000_000..=100_000_000_000).contains(&file.bytes))
        );
        let tens = files
            .iter()
            .filter(|file| CLASSES[file.class] == 10)
            .count();
        assert!((79_000..81_000).contains(&tens), "{tens}");
        let resent: u64 = files.iter().map(|file| u64::from(file.resent_ppm)).sum();
        assert!((19_500..20_500).contains(&(resent / 200_000)), "{resent}");
        assert!(files.is_sorted_by_key(|file| file.at));
    }
}
