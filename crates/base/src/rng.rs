//! Deterministic random numbers from a seed.

/// Pseudo-random generator `SplitMix64` (Steele et al. 2014): one seed yields the same sequence on every machine. It
/// is not suited for keys and nonces.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns a generator that starts from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Fills `bytes` with random octets: the next 64 bits in little-endian order, as often as needed.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next_u64().to_le_bytes()[..word.len()]);
        }
    }

    /// Returns a number in `0..bound`. `bound` must not be zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns true with a probability of `ppb` parts per billion.
    pub const fn chance_ppb(&mut self, ppb: u64) -> bool {
        ppb > 0 && self.below(1_000_000_000) < ppb
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_bytes_are_the_numbers_in_order() {
        let mut bytes = [0; 19];
        Rng::new(7).fill(&mut bytes);
        let mut rng = Rng::new(7);
        for word in bytes.chunks(8) {
            assert_eq!(*word, rng.next_u64().to_le_bytes()[..word.len()]);
        }
    }
}
