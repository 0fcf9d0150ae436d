//! Repair symbols of the Reed-Solomon code against its definition in docs/src/wire.md, computed by polynomials.

use lighthaul_proto::fec::{Code, Coder};

/// Text of the definition, with a test vector.
const PAGE: &str = include_str!("../../../../docs/src/wire.md");

#[test]
fn repair_symbols_follow_their_definition() {
    for text in [
        "rs:1+1", "rs:10+3", "rs:3+10", "rs:4+4", "rs:4+3", "rs:3+4", "rs:17+2",
    ] {
        let code: Code = text.parse().unwrap();
        let sources: Vec<Vec<u8>> = (0..code.sources()).map(|nth| noise(nth, 70)).collect();
        let borrowed: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        assert_eq!(
            Coder::new(code).repair(&borrowed),
            repairs(code, &sources),
            "{text}"
        );
    }
}

#[test]
fn test_vector_of_the_documentation_is_correct() {
    let sources: [&[u8]; 3] = [&[1, 2, 3, 4], &[5, 6, 7, 8], &[9, 10, 11, 12]];
    let made = Coder::new(Code::ReedSolomon(3, 2)).repair(&sources);
    let hex =
        |symbol: &Vec<u8>| format!("{:08x}", u32::from_be_bytes(symbol[..].try_into().unwrap()));
    let made: Vec<String> = made.iter().map(hex).collect();
    let row = format!(
        "| `01020304`, `05060708`, `090a0b0c` | `{}`, `{}` |",
        made[0], made[1]
    );
    assert!(PAGE.contains(&row), "{row}");
}

/// Returns the repair symbols by the definition.
fn repairs(code: Code, sources: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let field = Field::new();
    let (count, most) = (usize::from(code.sources()), usize::from(code.repairs()));
    let (wide, narrow) = (count.next_power_of_two(), most.next_power_of_two());
    let is_high = wide > narrow || (wide == narrow && count <= most);
    let columns: Vec<Vec<u16>> = sources.iter().map(|symbol| elements(symbol)).collect();
    let words = columns[0].len();
    let repair = |nth: usize| {
        let word = |at: usize| {
            let value = |nth: usize| columns.get(nth).map_or(0, |column| column[at]);
            if is_high {
                // the sum of one polynomial for each group of sources
                let groups = (0..count).step_by(narrow).map(|first| {
                    let points = (first..first + narrow).map(|nth| (narrow + nth, value(nth)));
                    field.interpolate(&points.collect::<Vec<_>>(), nth)
                });
                groups.fold(0, |sum, value| sum ^ value)
            } else {
                let points: Vec<_> = (0..wide).map(|nth| (nth, value(nth))).collect();
                field.interpolate(&points, wide + nth)
            }
        };
        octets(&(0..words).map(word).collect::<Vec<u16>>())
    };
    (0..most).map(repair).collect()
}

/// Splits a symbol into elements: 64 octets are 32 low octets and 32 high ones, and the rest is halved alike.
fn elements(symbol: &[u8]) -> Vec<u16> {
    let groups = symbol.chunks(64).flat_map(|group| {
        let (low, high) = group.split_at(group.len() / 2);
        low.iter()
            .zip(high)
            .map(|(low, high)| u16::from_le_bytes([*low, *high]))
    });
    groups.collect()
}

/// Joins elements to a symbol.
fn octets(elements: &[u16]) -> Vec<u8> {
    let groups = elements.chunks(32).flat_map(|group| {
        let low = group.iter().map(|element| element.to_le_bytes()[0]);
        low.chain(group.iter().map(|element| element.to_le_bytes()[1]))
    });
    groups.collect()
}

fn noise(seed: u8, len: usize) -> Vec<u8> {
    let octet = |at: usize| {
        (at as u8)
            .wrapping_mul(73)
            .wrapping_add(seed.wrapping_mul(151))
            ^ seed
    };
    (0..len).map(octet).collect()
}

/// GF(2^16): an element is 16 coordinates in the Cantor basis.
struct Field {
    /// Coordinates of each polynomial.
    coordinates: Vec<u16>,
}

impl Field {
    fn new() -> Self {
        let mut coordinates = vec![0; 1 << 16];
        for element in 0..=u16::MAX {
            coordinates[usize::from(polynomial(element))] = element;
        }
        Self { coordinates }
    }

    /// Returns the value at a point of the polynomial of the lowest degree through `points`.
    fn interpolate(&self, points: &[(usize, u16)], at: usize) -> u16 {
        let point = |nth: usize| polynomial(nth as u16);
        let term = |(nth, value): &(usize, u16)| {
            let others = points.iter().filter(|(other, _)| other != nth);
            others.fold(polynomial(*value), |product, (other, _)| {
                let quotient = times(
                    point(at) ^ point(*other),
                    inverse(point(*nth) ^ point(*other)),
                );
                times(product, quotient)
            })
        };
        let sum = points.iter().map(term).fold(0, |sum, term| sum ^ term);
        self.coordinates[usize::from(sum)]
    }
}

/// Returns the polynomial over GF(2) of an element.
fn polynomial(element: u16) -> u16 {
    let basis = BASIS.iter().enumerate();
    let terms = basis.filter(|(bit, _)| element >> bit & 1 == 1);
    terms.fold(0, |sum, (_, term)| sum ^ term)
}

fn times(one: u16, other: u16) -> u16 {
    let bits = (0..16).filter(|bit| other >> bit & 1 == 1);
    let mut product = bits.fold(0_u32, |sum, bit| sum ^ (u32::from(one) << bit));
    for bit in (16..32).rev() {
        if product >> bit & 1 == 1 {
            product ^= MODULUS << (bit - 16);
        }
    }
    product as u16
}

/// Returns the power 2^16 - 2.
fn inverse(element: u16) -> u16 {
    let mut square = element;
    let mut power = 1;
    for _ in 1..16 {
        square = times(square, square);
        power = times(power, square);
    }
    power
}

const MODULUS: u32 = 0x1002D;

/// Cantor basis of the crate `reed-solomon-simd`.
const BASIS: [u16; 16] = [
    0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012, 0x6C98, 0x10D8, 0x6A72, 0xB900,
    0xFDB8, 0xFB34, 0xFF38, 0x991E,
];
