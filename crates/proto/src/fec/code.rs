//! Erasure codes: computation of repair symbols, and restoration of lost source symbols.
//!
//! A [`Code`] says how many symbols a block has, and a [`Coder`] computes them (terms of RFC 5052):
//!
//! ```text
//! rs:4+2   | s0 | s1 | s2 | s3 | r0 | r1 |     any 4 of the 6 restore the block
//! xor:3    | s0 | s1 | s2 | s0^s1^s2 |         any 3 of the 4
//! ```
//!
//! A block that closes early has fewer repair symbols, in proportion. All symbols of a block have
//! one even length. Packets and blocks in flight are the concern of the sender and the receiver.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use lighthaul_base::unsigned;
use reed_solomon_simd::{ReedSolomonEncoder, decode};

/// Systematic erasure code. It restores as many symbols of a block as it adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No repair symbols.
    None,
    /// One repair symbol, the XOR of the given number of source symbols, as in Quanta.
    Xor(u8),
    /// Reed-Solomon code with the given numbers of source symbols and repair symbols.
    ReedSolomon(u8, u8),
}

impl Code {
    /// Returns the number of source symbols in a full block.
    pub const fn sources(self) -> u8 {
        match self {
            Self::None => 1,
            Self::Xor(sources) | Self::ReedSolomon(sources, _) => sources,
        }
    }

    /// Returns the number of repair symbols of a full block.
    pub const fn repairs(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Xor(_) => 1,
            Self::ReedSolomon(_, repairs) => repairs,
        }
    }

    /// Returns the number of repair symbols of a block that was closed with `count` source symbols.
    pub const fn repairs_of(self, count: u8) -> u8 {
        let share = self.repairs() as u16 * count as u16;
        share.div_ceil(self.sources() as u16) as u8
    }

    /// True if blocks are not empty and have at most 255 symbols.
    pub const fn is_possible(self) -> bool {
        let symbols = self.sources() as u16 + self.repairs() as u16;
        let repairs = !matches!(self, Self::ReedSolomon(_, 0));
        self.sources() > 0 && repairs && symbols <= 255
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Xor(sources) => write!(f, "xor:{sources}"),
            Self::ReedSolomon(sources, repairs) => write!(f, "rs:{sources}+{repairs}"),
        }
    }
}

/// Error for text that is not a valid code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseCodeError;

impl fmt::Display for ParseCodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected none, xor:N or rs:N+M, as in xor:3 or rs:10+3, with at most 255 symbols in total")
    }
}

impl core::error::Error for ParseCodeError {}

impl FromStr for Code {
    type Err = ParseCodeError;

    fn from_str(text: &str) -> Result<Self, ParseCodeError> {
        let number = |text: &str| unsigned::number(text).ok_or(ParseCodeError);
        let code = match text.split_once(':') {
            None if text == "none" => Self::None,
            Some(("xor", sources)) => Self::Xor(number(sources)?),
            Some(("rs", both)) => {
                let (sources, repairs) = both.split_once('+').ok_or(ParseCodeError)?;
                Self::ReedSolomon(number(sources)?, number(repairs)?)
            }
            _ => return Err(ParseCodeError),
        };
        if code.is_possible() {
            Ok(code)
        } else {
            Err(ParseCodeError)
        }
    }
}

/// Encoder and decoder of a code, which reuses its buffers.
pub struct Coder {
    code: Code,
    encoder: Option<ReedSolomonEncoder>,
    zeros: Vec<u8>,
}

impl Coder {
    /// Returns a coder. Panics unless [`Code::is_possible`].
    pub fn new(code: Code) -> Self {
        assert!(code.is_possible(), "the code must be valid");
        Self {
            code,
            encoder: None,
            zeros: Vec::new(),
        }
    }

    /// Returns the repair symbols of a block of `sources`, which must have the same, even length. Source symbols that
    /// a short block lacks count as zeros. Panics if there are no sources, or more than a full block has.
    pub fn repair(&mut self, sources: &[&[u8]]) -> Vec<Vec<u8>> {
        let count = u8::try_from(sources.len()).unwrap_or(u8::MAX);
        assert!(
            (1..=self.code.sources()).contains(&count),
            "the number of source symbols is out of range"
        );
        match self.code {
            Code::None => Vec::new(),
            Code::Xor(_) => vec![sum(sources.iter().copied(), sources[0].len())],
            Code::ReedSolomon(..) => {
                let mut repairs = self.encode(sources).unwrap_or_default();
                repairs.truncate(self.code.repairs_of(count).into());
                repairs
            }
        }
    }

    /// Returns the missing source symbols of a block of `count`, each with its number, from the symbols that arrived.
    /// Returns `None` if too few arrived, or if their lengths differ.
    pub fn restore(
        &mut self,
        count: u8,
        sources: &[(u8, &[u8])],
        repairs: &[(u8, &[u8])],
    ) -> Option<Vec<(u8, Vec<u8>)>> {
        let len = repairs.first()?.1.len();
        let all = || sources.iter().chain(repairs);
        if all().any(|(_, symbol)| symbol.len() != len) || all().count() < count.into() {
            return None;
        }
        match self.code {
            Code::None => None,
            Code::Xor(_) => {
                let missing = (0..count).find(|nth| sources.iter().all(|(have, _)| have != nth))?;
                let symbol = sum(all().map(|(_, symbol)| *symbol), len);
                Some(vec![(missing, symbol)])
            }
            Code::ReedSolomon(wanted, most) => {
                self.zeros.resize(len, 0);
                let have = sources
                    .iter()
                    .map(|(nth, symbol)| (usize::from(*nth), *symbol));
                let lacks = (count..wanted).map(|nth| (usize::from(nth), &self.zeros[..]));
                let repairs = repairs
                    .iter()
                    .map(|(nth, symbol)| (usize::from(*nth), *symbol));
                let restored: BTreeMap<usize, Vec<u8>> =
                    decode(wanted.into(), most.into(), have.chain(lacks), repairs).ok()?;
                Some(
                    restored
                        .into_iter()
                        .map(|(nth, symbol)| (nth as u8, symbol))
                        .collect(),
                )
            }
        }
    }

    fn encode(&mut self, sources: &[&[u8]]) -> Result<Vec<Vec<u8>>, reed_solomon_simd::Error> {
        let (wanted, repairs) = (self.code.sources().into(), self.code.repairs().into());
        let len = sources[0].len();
        let mut encoder = match self.encoder.take() {
            Some(mut encoder) => {
                encoder.reset(wanted, repairs, len)?;
                encoder
            }
            None => ReedSolomonEncoder::new(wanted, repairs, len)?,
        };
        self.zeros.resize(len, 0);
        for source in sources {
            encoder.add_original_shard(source)?;
        }
        for _ in sources.len()..wanted {
            encoder.add_original_shard(&self.zeros)?;
        }
        let made = encoder
            .encode()?
            .recovery_iter()
            .map(<[u8]>::to_vec)
            .collect();
        self.encoder = Some(encoder);
        Ok(made)
    }
}

impl fmt::Debug for Coder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Coder({})", self.code)
    }
}

/// Returns the XOR of the symbols.
fn sum(symbols: impl Iterator<Item = impl AsRef<[u8]>>, len: usize) -> Vec<u8> {
    let mut sum = vec![0; len];
    for symbol in symbols {
        for (octet, other) in sum.iter_mut().zip(symbol.as_ref()) {
            *octet ^= other;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn codes_parse_in_text_form() {
        for (text, code) in [
            ("none", Some(Code::None)),
            ("xor:3", Some(Code::Xor(3))),
            ("rs:10+3", Some(Code::ReedSolomon(10, 3))),
            ("xor:254", Some(Code::Xor(254))),
            ("xor:0", None),
            ("xor:255", None),
            ("xor", None),
            ("rs:10", None),
            ("rs:10++3", None),
            ("xor:+3", None),
            ("rs:10+0", None),
            ("rs:0+1", None),
            ("rs:200+56", None),
            ("raptor:3", None),
        ] {
            assert_eq!(text.parse().ok(), code, "{text}");
            if let Some(code) = code {
                assert_eq!(code.to_string(), text);
            }
        }
    }

    #[test]
    fn short_block_has_its_share_of_repair_symbols() {
        let shares = [1, 3, 4, 10].map(|count| Code::ReedSolomon(10, 3).repairs_of(count));
        assert_eq!(shares, [1, 1, 2, 3]);
        assert_eq!(Code::Xor(3).repairs_of(1), 1);
        assert_eq!(Code::None.repairs_of(1), 0);
    }

    fn codes() -> impl Strategy<Value = Code> {
        prop_oneof![
            (1_u8..9).prop_map(Code::Xor),
            (1_u8..12, 1_u8..5).prop_map(|(sources, repairs)| Code::ReedSolomon(sources, repairs)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A sufficient number of any symbols restores the original block.
        #[test]
        fn any_sufficient_set_of_symbols_restores_the_block(
            code in codes(), count in 1_u8..12, pairs in 1_usize..40, seed: u64, lost: u32,
        ) {
            let count = count.min(code.sources());
            let mut rng = lighthaul_base::Rng::new(seed);
            let block: Vec<Vec<u8>> = (0..count)
                .map(|_| (0..pairs * 2).map(|_| rng.next_u64() as u8).collect())
                .collect();
            let slices: Vec<&[u8]> = block.iter().map(Vec::as_slice).collect();
            let mut coder = Coder::new(code);
            let repairs = coder.repair(&slices);
            prop_assert_eq!(repairs.len(), usize::from(code.repairs_of(count)));
            prop_assert_eq!(coder.repair(&slices), repairs.clone(), "used again");
            let is_there = |nth: usize| lost >> (nth % 32) & 1 == 0;
            let have: Vec<(u8, &[u8])> = (0..count).zip(slices.iter().copied())
                .filter(|(nth, _)| is_there(usize::from(*nth))).collect();
            let helps: Vec<(u8, &[u8])> = (0..).zip(repairs.iter().map(Vec::as_slice))
                .filter(|(nth, _): &(u8, _)| is_there(usize::from(count) + usize::from(*nth))).collect();
            let missing = usize::from(count) - have.len();
            let restored = coder.restore(count, &have, &helps);
            if missing == 0 {
                return Ok(());
            }
            if helps.len() < missing {
                prop_assert_eq!(restored, None);
            } else {
                let restored = restored.expect("enough symbols arrived");
                prop_assert_eq!(restored.len(), missing);
                for (nth, symbol) in restored {
                    prop_assert_eq!(&symbol, &block[usize::from(nth)]);
                }
            }
        }
    }
}
