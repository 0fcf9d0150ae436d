//! HTB's disciplines and classes as the kernel has them (`linux/pkt_sched.h`).

use std::time::Duration;

use lighthaul_base::Rate;

use crate::linux::message::{Attributes, Message, word};

/// The rates of a class: what it has, and up to what it may borrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) rate: Rate,
    pub(crate) ceil: Rate,
    /// Who borrows first; zero is first.
    pub(crate) priority: u32,
}

impl Class {
    /// A class that gets this rate and no more.
    pub(crate) const fn fixed(rate: Rate) -> Self {
        Self {
            rate,
            ceil: rate,
            priority: 0,
        }
    }

    /// Adds its attributes to a message.
    pub(crate) fn write(self, message: Message) -> Message {
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

    /// The rate of a class as the kernel says it.
    pub(crate) fn read_rate(attributes: Attributes<'_>) -> Option<Rate> {
        let options = attributes.nest(TCA_OPTIONS)?;
        let short = word(options.find(TCA_HTB_PARMS)?, RATE_AT)?;
        let long = options.find(TCA_HTB_RATE64);
        let long = long.and_then(|octets| Some(u64::from_ne_bytes(octets.try_into().ok()?)));
        Rate::from_bps(long.unwrap_or_else(|| short.into()).saturating_mul(8))
    }
}

/// Adds to a message what makes a discipline that puts everything in the class of this number that nobody else takes.
pub(crate) fn write_discipline(message: Message, default: u32) -> Message {
    const VERSION: u32 = 3;
    // it gives quanta to classes that have none of their own
    const RATE_TO_QUANTUM: u32 = 10;
    let globals = numbers(&[VERSION, RATE_TO_QUANTUM, default, 0, 0]);
    message
        .with_text(TCA_KIND, KIND)
        .with_nest(TCA_OPTIONS, |inner| inner.with(TCA_HTB_INIT, &globals))
}

/// The number of the class that gets what nobody else takes.
pub(crate) fn read_default(attributes: Attributes<'_>) -> Option<u32> {
    let is_ours = attributes.text(TCA_KIND) == Some(KIND);
    let globals = attributes.nest(TCA_OPTIONS)?.find(TCA_HTB_INIT)?;
    word(globals, 8).filter(|_| is_ours)
}

/// `struct tc_ratespec`; the kernel needs no table where it is told the link layer.
fn ratespec(rate: Rate) -> Vec<u8> {
    const ETHERNET: u8 = 1;
    let short = u32::try_from(octets_a_second(rate)).unwrap_or(u32::MAX);
    [&[0, ETHERNET, 0, 0, 0, 0, 0, 0][..], &short.to_ne_bytes()].concat()
}

/// How long a class may send at once after it was idle, in the kernel's ticks: a millisecond, but a few packets.
/// HTB's own default, one packet, loses a tenth at a gigabit a second, where its timer is too coarse for it.
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

pub(crate) const TCA_KIND: u16 = 1;
pub(crate) const TCA_OPTIONS: u16 = 2;
const KIND: &str = "htb";
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
/// Where the rate lies in `struct tc_htb_opt`.
const RATE_AT: usize = 8;
/// How many bytes one borrower gets before the next; the kernel warns of what it finds for itself.
const QUANTUM: u32 = 60_000;
/// What fits at once at any rate.
const PACKETS_BYTES: u64 = 4096;
