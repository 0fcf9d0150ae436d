//! Generators of octets that the fuzz targets read as plausible calls, with an occasional invalid one.

pub mod fec;
pub mod rbudp;
pub mod sabul;
pub mod stripe;
pub mod vbtp;

use proptest::prelude::*;
use proptest::strategy::Union;

/// Generates a transfer: mostly calls that deliver, drop and wait, and some of the protocol's `own` calls.
fn transfer(
    begin: impl Strategy<Value = Vec<u8>>,
    own: Vec<BoxedStrategy<Vec<u8>>>,
) -> impl Strategy<Value = Vec<u8>> {
    let call = prop_oneof![
        6 => any::<u8>().prop_map(|nth| vec![9, nth]),
        4 => Just(vec![11]),
        4 => (0_u8..4).prop_map(|high| vec![0, high, 1, 2, 3]),
        1 => any::<[u8; 2]>().prop_map(|load| vec![2, load[0], load[1]]),
        1 => Just(vec![8]),
        1 => any::<[u8; 4]>().prop_map(|at| vec![7, at[0], at[1], at[2], at[3]]),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        own.len() as u32 => Union::new(own),
    ];
    calls_behind(begin, call)
}

fn calls_behind(
    begin: impl Strategy<Value = Vec<u8>>,
    call: impl Strategy<Value = Vec<u8>>,
) -> impl Strategy<Value = Vec<u8>> {
    (begin, prop::collection::vec(call, 0..400))
        .prop_map(|(begin, calls)| [begin, calls.concat()].concat())
}

/// Returns call 4 or 5, which passes a message with this head and no body.
fn handed(call: u8, head: &[u8]) -> Vec<u8> {
    [&[call, 0, 0, head.len() as u8], head].concat()
}
