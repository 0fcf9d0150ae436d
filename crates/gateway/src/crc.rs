//! CRC-32C of consecutive pages, combined from the CRCs of the pages.

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

const CRC_32C: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;

/// Computes the CRC-32C of consecutive pieces.
pub(crate) fn crc_of(pieces: impl IntoIterator<Item: AsRef<[u8]>>) -> u32 {
    let mut digest = Digest::new(CRC_32C);
    for piece in pieces {
        digest.update(piece.as_ref());
    }
    digest.finalize() as u32
}

/// Combines the CRCs of pages, most of which have the same length. The effect of that number of bytes on a CRC is a
/// linear map, which is stored as the images of its 32 bits.
#[derive(Clone, Debug)]
pub(crate) struct CrcJoiner {
    page_len: usize,
    images: [u32; 32],
}

impl CrcJoiner {
    pub(crate) fn new(page_len: usize) -> Self {
        let image = |bit: usize| checksum_combine(CRC_32C, 1 << bit, 0, page_len as u64) as u32;
        Self {
            page_len,
            images: std::array::from_fn(image),
        }
    }

    /// Returns the CRC of bytes with the CRC `before`, followed by a page of `len` bytes.
    pub(crate) fn join(&self, before: u32, page: u32, len: usize) -> u32 {
        if len != self.page_len {
            return checksum_combine(CRC_32C, before.into(), page.into(), len as u64) as u32;
        }
        let bits = (0..32).filter(|bit| before >> bit & 1 == 1);
        bits.fold(page, |joined, bit| joined ^ self.images[bit])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn combined_crc_equals_the_crc_of_all_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..5000),
            page_len in 1_usize..1000,
        ) {
            let joiner = CrcJoiner::new(page_len);
            let joined = bytes.chunks(page_len).fold(0, |before, page| {
                joiner.join(before, crc_of([page]), page.len())
            });
            prop_assert_eq!(joined, crc_of([bytes.as_slice()]));
            prop_assert_eq!(joined, crc_of(bytes.chunks(page_len)));
        }
    }
}
