//! The files of section 3.3.1: when they are asked for, how large they are, how fast their hosts.

use lighthaul_base::{Instant, Rng};
use lighthaul_schedule::Need;

/// A file that somebody wants to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// When it is asked for.
    pub at: Instant,
    /// Its bytes.
    pub bytes: u64,
    /// Which of [`CLASSES`] its hosts are of.
    pub class: usize,
    /// Millionths that are sent again.
    pub resent_ppm: u32,
    /// Chance, for whatever else is to be chosen for it.
    pub chance: u64,
}

impl File {
    /// What it takes to carry it, as circuits count.
    pub fn work(&self) -> u128 {
        let need = Need::Size {
            bytes: self.bytes,
            margin_ppm: self.resent_ppm,
        };
        need.work()
    }
}

/// So many files, at so many bits a second on average; the same of the same seed on every machine.
#[expect(clippy::cast_sign_loss, reason = "time goes on from zero")]
pub fn files(seed: u64, count: usize, bps: f64, resent_ppm_max: u32) -> Vec<File> {
    let mut rng = Rng::new(seed);
    let mut at = 0.0;
    let gap = mean_bytes() * 8.0 / bps * 1e9;
    let file = |_| {
        // Poisson: the gaps are exponential
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

/// A bounded Pareto number (equation 2 of the paper), by its inverse.
#[expect(clippy::cast_sign_loss, reason = "it lies between two sizes")]
fn bytes(rng: &mut Rng) -> u64 {
    let cut = 1.0 - libm::pow(LEAST_BYTES / MOST_BYTES, ALPHA);
    (LEAST_BYTES / libm::pow(1.0 - part(rng) * cut, 1.0 / ALPHA)) as u64
}

/// What a file has on average.
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

/// A number from 0 to below 1.
fn part(rng: &mut Rng) -> f64 {
    rng.below(1 << 53) as f64 / (1_u64 << 53) as f64
}

/// The paper's values of `R_max`, in channels; a file is of one with a probability of 0.3, 0.3 and 0.4.
pub const CLASSES: [u64; 3] = [1, 5, 10];
const ALPHA: f64 = 1.1;
const LEAST_BYTES: f64 = 500e6;
const MOST_BYTES: f64 = 100e9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_as_often_and_as_large_as_they_are_said_to() {
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
