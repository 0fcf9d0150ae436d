//! HTB queueing disciplines and classes in the kernel's format (`linux/pkt_sched.h`).

use std::time::Duration;

use crate::tc_message::{Attributes, Message, word};
use lighthaul_base::Rate;

/// Rates of a class: the guaranteed one, and the ceiling with borrowed bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Guaranteed rate.
    pub rate: Rate,
    /// Highest rate, with borrowed bandwidth.
    pub ceil: Rate,
    /// Priority in borrowing; zero is the highest.
    pub priority: u32,
}

impl Class {
    /// Returns a class with a rate that borrows from no other class.
    pub const fn fixed(rate: Rate) -> Self {
        Self {
            rate,
            ceil: rate,
            priority: 0,
        }
    }

    /// Adds the attributes of the class to a message.
    pub fn write(self, message: Message) -> Message {
        let parameters = [
            ratespec(self.rate),
            ratespec(self.ceil),
            numbers(&[
                burst(self.rate),
                burst(self.ceil),
                QUANTUM,
                0,
                self.priority,
            ]),
        ]
        .concat();
        message
            .with_text(TCA_KIND, KIND)
            .with_nest(TCA_OPTIONS, |inner| {
                inner
                    .with(TCA_HTB_RATE64, &octets_a_second(self.rate).to_ne_bytes())
                    .with(TCA_HTB_CEIL64, &octets_a_second(self.ceil).to_ne_bytes())
                    .with(TCA_HTB_PARMS, &parameters)
            })
    }

    /// Returns the rate of a class.
    pub fn read_rate(attributes: Attributes<'_>) -> Option<Rate> {
        let options = attributes.nest(TCA_OPTIONS)?;
        let short = word(options.find(TCA_HTB_PARMS)?, RATE_AT)?;
        let long = options.find(TCA_HTB_RATE64);
        let long = long.and_then(|octets| Some(u64::from_ne_bytes(octets.try_into().ok()?)));
        Rate::from_bps(long.unwrap_or_else(|| short.into()).saturating_mul(8))
    }
}

/// Adds the attributes of a queueing discipline to a message. Unclassified packets use the class `default`.
pub fn write_discipline(message: Message, default: u32) -> Message {
    const VERSION: u32 = 3;
    // the quantum of a class is its rate divided by this, unless the class sets it
    const RATE_TO_QUANTUM: u32 = 10;
    let globals = numbers(&[VERSION, RATE_TO_QUANTUM, default, 0, 0]);
    message
        .with_text(TCA_KIND, KIND)
        .with_nest(TCA_OPTIONS, |inner| inner.with(TCA_HTB_INIT, &globals))
}

/// Returns the number of the default class.
pub fn read_default(attributes: Attributes<'_>) -> Option<u32> {
    let is_ours = attributes.text(TCA_KIND) == Some(KIND);
    let globals = attributes.nest(TCA_OPTIONS)?.find(TCA_HTB_INIT)?;
    word(globals, 8).filter(|_| is_ours)
}

/// Encodes `struct tc_ratespec`. With a link layer, the kernel needs no rate table.
fn ratespec(rate: Rate) -> Vec<u8> {
    const ETHERNET: u8 = 1;
    let short = u32::try_from(octets_a_second(rate)).unwrap_or(u32::MAX);
    [&[0, ETHERNET, 0, 0, 0, 0, 0, 0][..], &short.to_ne_bytes()].concat()
}

/// Returns the burst of a class in ticks of the kernel: a millisecond, and at least a few packets. HTB's own default of
/// one packet loses a tenth at a gigabit a second, since its timer is too coarse.
fn burst(rate: Rate) -> u32 {
    const TICK_NANOS: u128 = 64;
    let time = rate.time_for(PACKETS_BYTES).max(Duration::from_millis(1));
    u32::try_from(time.as_nanos() / TICK_NANOS).unwrap_or(u32::MAX)
}

fn octets_a_second(rate: Rate) -> u64 {
    rate.as_bps() / 8
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect()
}

/// Attribute with the kind of an object.
pub const TCA_KIND: u16 = 1;
/// Attribute with the options of a kind.
pub const TCA_OPTIONS: u16 = 2;
const KIND: &str = "htb";
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
/// Offset of the rate in `struct tc_htb_opt`.
const RATE_AT: usize = 8;
/// Bytes that a class sends before the next one borrows. The kernel warns of the values that it computes itself.
const QUANTUM: u32 = 60_000;
/// Minimum burst at any rate, in bytes.
const PACKETS_BYTES: u64 = 4096;
