//! Sums of blocks: a rolling sum of 32 bits, and 32 bits of a keyed BLAKE3 hash.
//!
//! The rolling sum is a polynomial modulo 2^64 whose multiplier follows from the key (Karp and
//! Rabin 1987), of which the high half is used. Sums only find candidates: both sides compare
//! digests of all parts that they find. The key is new for each file, so that
//! files whose blocks have equal sums cannot be prepared.

use lighthaul_base::Malformed;

/// Shortest and longest block, in bytes.
pub const BLOCK_MIN: u32 = 1 << 10;
/// Longest block, in bytes.
pub const BLOCK_MAX: u32 = 1 << 20;
/// Longest block of a file that needs no longer blocks to stay within the limit of blocks.
const BLOCK_USUAL: u32 = 8 << 10;
/// Octets of an encoded sum.
pub const SUM_LEN: usize = 8;

/// Sums of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// High half of the rolling sum.
    pub weak: u32,
    /// Part of the keyed hash.
    pub strong: u32,
}

impl Sum {
    /// Returns the octets of the sum.
    pub fn encode(self) -> [u8; SUM_LEN] {
        ((u64::from(self.weak) << 32) | u64::from(self.strong)).to_be_bytes()
    }

    /// Decodes sums, one after the other.
    pub fn decode(octets: &[u8]) -> Result<Vec<Self>, Malformed> {
        let (sums, []) = octets.as_chunks::<SUM_LEN>() else {
            return Err(Malformed);
        };
        let sum = |octets: &[u8; SUM_LEN]| {
            let both = u64::from_be_bytes(*octets);
            Self {
                weak: (both >> 32) as u32,
                strong: both as u32,
            }
        };
        Ok(sums.iter().map(sum).collect())
    }
}

/// Returns the block length for a basis of `len` bytes: a power of two near the square root, or longer for
/// `blocks_max`.
pub fn block_len(len: u64, blocks_max: u64) -> u32 {
    let root = len.isqrt().clamp(BLOCK_MIN.into(), BLOCK_USUAL.into());
    let mut block = (root as u32).next_power_of_two();
    while block < BLOCK_MAX && len.div_ceil(block.into()) > blocks_max {
        block *= 2;
    }
    block
}

/// Reports whether a block may have the length `block`.
pub const fn is_block_len(block: u32) -> bool {
    block.is_power_of_two() && block >= BLOCK_MIN && block <= BLOCK_MAX
}

/// Computation of the sums of blocks of one length.
#[derive(Debug)]
pub struct Summer {
    key: [u8; 32],
    block: usize,
    multiplier: u64,
    /// Multiplier to the power of a quarter of the block.
    quarter: u64,
    /// Contribution of each byte that leaves the block.
    out: Box<[u64; 256]>,
}

impl Summer {
    /// Returns the computation for blocks of `block` bytes.
    pub fn new(key: [u8; 32], block: u32) -> Self {
        let hash = blake3::keyed_hash(&key, b"multiplier");
        let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        // 5 modulo 8 has the longest cycle
        let multiplier = (u64::from_be_bytes(first) & !7) | 5;
        let power = |count: u32| multiplier.wrapping_pow(count);
        let gone = power(block);
        let mut out = Box::new([0_u64; 256]);
        for (byte, contributed) in (0_u64..).zip(out.iter_mut()) {
            *contributed = gone.wrapping_mul(byte);
        }
        Self {
            key,
            block: block as usize,
            multiplier,
            quarter: power(block / 4),
            out,
        }
    }

    /// Returns the length of blocks in bytes.
    pub const fn block(&self) -> usize {
        self.block
    }

    /// Returns the sums of a block.
    pub fn sum(&self, bytes: &[u8]) -> Sum {
        Sum {
            weak: weak(self.rolling(bytes)),
            strong: self.strong(bytes),
        }
    }

    /// Returns the part of the keyed hash.
    pub fn strong(&self, bytes: &[u8]) -> u32 {
        let hash = blake3::keyed_hash(&self.key, bytes);
        let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        u32::from_be_bytes(first)
    }

    /// Returns the rolling sum of `bytes`.
    pub fn rolling(&self, bytes: &[u8]) -> u64 {
        if bytes.len() != self.block {
            return self.horner(0, bytes);
        }
        // four sums at a time, as each step waits for the one before
        let (first, second) = bytes.split_at(self.block / 2);
        let (a, b) = first.split_at(self.block / 4);
        let (c, d) = second.split_at(self.block / 4);
        let mut sums = [0_u64; 4];
        for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
            for (sum, byte) in sums.iter_mut().zip([a, b, c, d]) {
                *sum = sum
                    .wrapping_mul(self.multiplier)
                    .wrapping_add(u64::from(*byte));
            }
        }
        sums.into_iter().fold(0, |all: u64, sum| {
            all.wrapping_mul(self.quarter).wrapping_add(sum)
        })
    }

    fn horner(&self, sum: u64, bytes: &[u8]) -> u64 {
        bytes.iter().fold(sum, |sum, byte| {
            sum.wrapping_mul(self.multiplier)
                .wrapping_add(u64::from(*byte))
        })
    }

    /// Returns the rolling sum one byte further: without the byte `out`, and with the byte `new`.
    #[inline]
    pub fn roll(&self, sum: u64, out: u8, new: u8) -> u64 {
        sum.wrapping_mul(self.multiplier)
            .wrapping_add(u64::from(new))
            .wrapping_sub(self.out[usize::from(out)])
    }
}

/// Returns the part of a rolling sum that is compared. The low bits depend on few bytes.
#[inline]
pub const fn weak(rolling: u64) -> u32 {
    (rolling >> 32) as u32
}
